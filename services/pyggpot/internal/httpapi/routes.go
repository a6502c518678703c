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
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// twirp is the path prefix that callers of a Twirp service use.
const twirp = "/twirp"

// Options are what the routes need beside the ports.
type Options struct {
	// MaxBody is the largest request in bytes, MAX_BODY.
	MaxBody int64
	// Ready reports whether the replica accepts requests, and if not, why.
	Ready func() (ready bool, why string)
	// TracerProvider starts a span for each call below that of its HTTP request; nil without tracing.
	TracerProvider trace.TracerProvider
	// Operations starts a span for each operation below that of its call; nil without tracing.
	Operations *telemetry.Operations
}

// Register registers the procedures of both ports on e, each also under /twirp, and gRPC's health check and reflection.
// Each procedure has a route of its own, so that metrics, logs and limits are those of any other API.
func Register(e *echo.Echo, potAPI pot.PotsAPI, coinAPI pot.CoinsAPI, o Options) error {
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
		interceptors = append(interceptors, traced, interceptor(failPanicked), interceptor(cancelAbandoned))
	}
	interceptors = append(interceptors, interceptor(refuse), validated(validator))
	if o.Operations != nil {
		interceptors = append(interceptors, operations(o.Operations))
	}
	common := connect.WithHandlerOptions(connect.WithCodec(jsonCodec{}), connect.WithReadMaxBytes(int(o.MaxBody)))
	own := connect.WithHandlerOptions(common, connect.WithInterceptors(interceptors...))

	err = errors.Join(
		mount(e, potpb.File_pyggpot_pot_pot_proto, second(potconnect.NewPotHandler(pots{potAPI}, own)), o.MaxBody),
		mount(e, coin.File_pyggpot_coin_coin_proto, second(coinconnect.NewCoinHandler(coins{coinAPI}, own)), o.MaxBody))
	mountTools(e, o, common)
	return err
}

// mountTools registers health check and reflection.
func mountTools(e *echo.Echo, o Options, options connect.HandlerOption) {
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
		e.POST(path, p.serve)
	}
}

// mount registers every procedure of a file, with and without the prefix twirp.
func mount(e *echo.Echo, file protoreflect.FileDescriptor, h http.Handler, maxBody int64) error {
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		for j := range service.Methods().Len() {
			method := service.Methods().Get(j)
			request, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
			if err != nil {
				return fmt.Errorf("the request of %s: %w", method.FullName(), err)
			}
			path := "/" + string(service.FullName()) + "/" + string(method.Name())
			e.POST(path, procedure{handler: h, request: request, maxBody: maxBody}.serve)
			e.POST(twirp+path, procedure{handler: http.StripPrefix(twirp, h), request: request, maxBody: maxBody}.serve)
		}
	}
	return nil
}

// second returns a handler without its path.
func second(_ string, h http.Handler) http.Handler { return h }

// spans returns the names of the operations' spans by procedure.
func spans() map[string]string {
	return map[string]string{
		potconnect.PotCreatePotProcedure: "pyggpot.create", potconnect.PotViewPotProcedure: "pyggpot.view",
		potconnect.PotViewPotByNameProcedure: "pyggpot.view_by_name", potconnect.PotListPotsProcedure: "pyggpot.list",
		coinconnect.CoinAddCoinsProcedure: "pyggpot.add", coinconnect.CoinRemoveCoinsProcedure: "pyggpot.remove",
	}
}

// interceptor returns an interceptor that calls f, which calls next.
func interceptor(
	f func(ctx context.Context, request connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error),
) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			return f(ctx, request, next)
		}
	}
}

// operations returns an interceptor that starts a span of ops for each operation.
func operations(ops *telemetry.Operations) connect.UnaryInterceptorFunc {
	names := spans()
	return interceptor(func(
		ctx context.Context, request connect.AnyRequest, next connect.UnaryFunc,
	) (answer connect.AnyResponse, err error) {
		ctx, end := ops.Start(ctx, names[request.Spec().Procedure])
		defer end(&err)
		return next(ctx, request)
	})
}

// failPanicked fails the span of a call that panics, which otelconnect does not. The panic goes on to the server, which
// logs it and answers.
//
//nolint:ireturn // the signature of connect's interceptors
func failPanicked(
	ctx context.Context, request connect.AnyRequest, next connect.UnaryFunc,
) (connect.AnyResponse, error) {
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

// cancelAbandoned returns CodeCanceled for a call that failed because its client hung up: otelconnect does not count it
// as a fault of the server, and so does not fail its span. No client reads the answer; the log has the error itself.
//
//nolint:ireturn // the signature of connect's interceptors
func cancelAbandoned(
	ctx context.Context, request connect.AnyRequest, next connect.UnaryFunc,
) (connect.AnyResponse, error) {
	answer, err := next(ctx, request)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil, connect.NewError(connect.CodeCanceled, context.Canceled) //nolint:wrapcheck // Connect's own error
	}
	return answer, err
}

// refuse returns the errors of handlers as Connect errors.
//
//nolint:ireturn // the signature of connect's interceptors
func refuse(ctx context.Context, request connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	answer, err := next(ctx, request)
	//nolint:errorlint // the bare error is Connect's, from before the method
	if over := ctx.Err(); over != nil && err == over {
		err = fmt.Errorf("%w: %w", pot.ErrTimeOver, over)
	}
	if err != nil {
		return nil, connectError(httpserver.Refuse(ctx, err))
	}
	return answer, nil
}
