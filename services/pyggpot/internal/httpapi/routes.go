package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/otelconnect"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// twirp is where callers of the service's predecessor look.
const twirp = "/twirp"

// router is what routes are put on; *httpserver.Server is one.
type router interface {
	Handle(method, pattern string, h httpserver.Handler)
}

// Options are what the routes need beside the ports.
type Options struct {
	// MaxBody is the largest request in bytes, MAX_BODY.
	MaxBody int64
	// Ready says whether the replica wants requests.
	Ready func() (ready bool, why string)
	// TracerProvider makes a span of each call below that of its HTTP request; nil
	// where tracing is off.
	TracerProvider trace.TracerProvider
}

// Register puts the routes of both ports on r: each procedure of the contract, the
// same under /twirp, gRPC's health check and reflection. One route per procedure
// gives metrics, logs and limits the same shape as those of any other API.
func Register(r router, potAPI pot.PotsAPI, coinAPI pot.CoinsAPI, o Options) error {
	validator, err := newValidator()
	if err != nil {
		return err
	}
	var interceptors []connect.Interceptor
	if o.TracerProvider != nil {
		traced, err := otelconnect.NewInterceptor(otelconnect.WithTracerProvider(o.TracerProvider),
			otelconnect.WithoutMetrics(), otelconnect.WithoutTraceEvents(), otelconnect.WithoutServerPeerAttributes())
		if err != nil {
			return fmt.Errorf("trace calls: %w", err)
		}
		interceptors = append(interceptors, traced, panicked(), abandoned())
	}
	interceptors = append(interceptors, refused(), validated(validator))
	common := connect.WithHandlerOptions(connect.WithCodec(jsonCodec{}), connect.WithReadMaxBytes(int(o.MaxBody)))
	own := connect.WithHandlerOptions(common, connect.WithInterceptors(interceptors...))

	err = errors.Join(
		mount(r, potpb.File_pyggpot_pot_pot_proto, second(potconnect.NewPotHandler(pots{potAPI}, own)), o.MaxBody),
		mount(r, coin.File_pyggpot_coin_coin_proto, second(coinconnect.NewCoinHandler(coins{coinAPI}, own)), o.MaxBody))
	mountTools(r, o, common)
	return err
}

// mountTools puts what gRPC's tools ask for on r.
func mountTools(r router, o Options, options connect.HandlerOption) {
	reflector := grpcreflect.NewStaticReflector(append(services(), grpchealth.HealthV1ServiceName)...)
	check := second(grpchealth.NewHandler(health{o.Ready}, options))
	for path, p := range map[string]procedure{
		"/grpc.health.v1.Health/Check": {handler: check},
		"/grpc.health.v1.Health/Watch": {handler: check, stream: true},
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": {
			handler: second(grpcreflect.NewHandlerV1(reflector, options)), stream: true,
		},
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {
			handler: second(grpcreflect.NewHandlerV1Alpha(reflector, options)), stream: true,
		},
	} {
		p.maxBody = o.MaxBody
		r.Handle(http.MethodPost, path, p.serve)
	}
}

// mount puts every procedure of a file on r, twice.
func mount(r router, file protoreflect.FileDescriptor, h http.Handler, maxBody int64) error {
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		for j := range service.Methods().Len() {
			method := service.Methods().Get(j)
			request, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
			if err != nil {
				return fmt.Errorf("the request of %s: %w", method.FullName(), err)
			}
			path := "/" + string(service.FullName()) + "/" + string(method.Name())
			r.Handle(http.MethodPost, path, procedure{handler: h, request: request, maxBody: maxBody}.serve)
			r.Handle(http.MethodPost, twirp+path, procedure{handler: http.StripPrefix(twirp, h), request: request, maxBody: maxBody}.serve)
		}
	}
	return nil
}

func second(_ string, h http.Handler) http.Handler { return h }

// panicked fails the span of a call that panics, which otelconnect leaves as if all
// were well. The value goes on to the listener, which logs it and answers.
func panicked() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			returned := false
			defer func() {
				if !returned {
					span := trace.SpanFromContext(ctx)
					span.SetAttributes(semconv.ErrorTypeKey.String(problem.Internal.Code()))
					span.SetStatus(codes.Error, "")
				}
			}()
			answer, err := next(ctx, request)
			returned = true
			return answer, err
		}
	}
}

// abandoned spares the span of a call that failed because its client hung up, as the
// spans around it are spared: to otelconnect CodeCanceled is no fault of the server.
// Nobody reads the answer; the log has what refused has noted.
func abandoned() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			answer, err := next(ctx, request)
			if err != nil && errors.Is(ctx.Err(), context.Canceled) {
				return nil, connect.NewError(connect.CodeCanceled, context.Canceled)
			}
			return answer, err
		}
	}
}

// refused makes Connect errors of what handlers return.
func refused() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			answer, err := next(ctx, request)
			if over := ctx.Err(); over != nil && err == over { //nolint:errorlint // bare, it is Connect's, from before the method
				err = fmt.Errorf("%w: %w", pot.ErrTimeOver, over)
			}
			if err != nil {
				return nil, connectError(httpserver.Refuse(ctx, err))
			}
			return answer, nil
		}
	}
}
