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
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/services/pyggpot/client/coin"
	"github.com/rowlock/rowlock/services/pyggpot/client/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/services/pyggpot/client/pot"
	"github.com/rowlock/rowlock/services/pyggpot/client/pot/potconnect"
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
	// TracerProvider makes a span of each call; nil where tracing is off.
	TracerProvider trace.TracerProvider
	Propagator     propagation.TextMapPropagator
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
			otelconnect.WithPropagator(o.Propagator), otelconnect.WithoutMetrics(), otelconnect.WithoutServerPeerAttributes())
		if err != nil {
			return fmt.Errorf("trace calls: %w", err)
		}
		interceptors = append(interceptors, traced)
	}
	interceptors = append(interceptors, refused(), validated(validator))
	common := connect.WithHandlerOptions(connect.WithCodec(jsonCodec{}), connect.WithReadMaxBytes(int(max(1, o.MaxBody-envelope))))
	own := connect.WithHandlerOptions(common, connect.WithInterceptors(interceptors...))

	err = errors.Join(
		mount(r, potpb.File_pyggpot_pot_pot_proto, second(potconnect.NewPotHandler(pots{potAPI}, own))),
		mount(r, coin.File_pyggpot_coin_coin_proto, second(coinconnect.NewCoinHandler(coins{coinAPI}, own))))
	mountTools(r, o, common)
	return err
}

// mountTools puts what gRPC's tools ask for on r.
func mountTools(r router, o Options, options connect.HandlerOption) {
	reflector := grpcreflect.NewStaticReflector(append(services(), grpchealth.HealthV1ServiceName)...)
	checked := rpc(second(grpchealth.NewHandler(health{o.Ready}, options)), nil)
	r.Handle(http.MethodPost, "/grpc.health.v1.Health/Check", checked)
	r.Handle(http.MethodPost, "/grpc.health.v1.Health/Watch", checked)
	r.Handle(http.MethodPost, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		rpc(second(grpcreflect.NewHandlerV1(reflector, options)), nil))
	r.Handle(http.MethodPost, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
		rpc(second(grpcreflect.NewHandlerV1Alpha(reflector, options)), nil))
}

// mount puts every procedure of a file on r, twice.
func mount(r router, file protoreflect.FileDescriptor, h http.Handler) error {
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		for j := range service.Methods().Len() {
			method := service.Methods().Get(j)
			request, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
			if err != nil {
				return fmt.Errorf("the request of %s: %w", method.FullName(), err)
			}
			path := "/" + string(service.FullName()) + "/" + string(method.Name())
			r.Handle(http.MethodPost, path, rpc(h, request))
			r.Handle(http.MethodPost, twirp+path, rpc(http.StripPrefix(twirp, h), request))
		}
	}
	return nil
}

func second(_ string, h http.Handler) http.Handler { return h }

// refused makes Connect errors of what handlers return.
func refused() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			answer, err := next(ctx, request)
			if err != nil {
				return nil, connectError(httpserver.Refuse(ctx, err))
			}
			return answer, nil
		}
	}
}
