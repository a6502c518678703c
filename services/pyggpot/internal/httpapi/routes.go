package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/otelconnect"
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// Options configure the routes.
type Options struct {
	// MaxBody is the largest request in bytes, MAX_BODY.
	MaxBody int64
	// Ready reports whether the replica accepts requests, and if not, why.
	Ready func() (ready bool, why string)
	// TracerProvider starts a span for each call below the span of its HTTP request; nil without tracing.
	TracerProvider trace.TracerProvider
}

// operation is a procedure of the contract.
type operation struct {
	span    string        // the name of its span
	right   auth.Right    // what it needs
	request proto.Message // an empty one
}

// operations returns the procedures of the contract by their paths.
func operations() map[string]operation {
	return map[string]operation{
		potconnect.PotCreatePotProcedure:     {"pyggpot.create", auth.Change, &potpb.CreatePotRequest{}},
		potconnect.PotViewPotProcedure:       {"pyggpot.view", auth.Read, &potpb.ViewPotRequest{}},
		potconnect.PotViewPotByNameProcedure: {"pyggpot.view_by_name", auth.Read, &potpb.ViewPotByNameRequest{}},
		potconnect.PotListPotsProcedure:      {"pyggpot.list", auth.Read, &potpb.ListPotsRequest{}},
		coinconnect.CoinAddCoinsProcedure:    {"pyggpot.add", auth.Change, &coin.AddCoinsRequest{}},
		coinconnect.CoinRemoveCoinsProcedure: {"pyggpot.remove", auth.Change, &coin.RemoveCoinsRequest{}},
	}
}

// healthCheck is the path of gRPC's health check.
const healthCheck = "/grpc.health.v1.Health/Check"

// Rights returns the function that returns the right that a request of a route needs. The health check is public, as
// /readyz is. Reflection is not, because a stream occupies the server.
func Rights() func(method, route string) auth.Right {
	all := map[string]auth.Right{healthCheck: auth.Public}
	for path, op := range operations() {
		all[path], all[twirp+path] = op.right, op.right
	}
	for _, path := range Streams() {
		all[path] = auth.Read
	}

	return func(method, route string) auth.Right {
		if right, ok := all[route]; ok {
			return right
		}
		return auth.RightOf(method)
	}
}

// Streams returns the paths of the procedures that may answer before their request ends.
func Streams() []string {
	return []string{
		"/grpc.health.v1.Health/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	}
}

// Register registers the procedures of the contract on e, each also under /twirp for Twirp's clients, and gRPC's health
// check and reflection. Each procedure has a separate route, so that it has the same metrics, logs and limits as any
// other API, and a span from ops, which is nil without tracing.
func Register(e *echo.Echo, service *pot.Service, o Options, ops *telemetry.Operations) error {
	interceptors, err := interceptors(o.TracerProvider, ops)
	if err != nil {
		return err
	}
	common := connect.WithHandlerOptions(
		connect.WithCodec(jsonCodec{}), connect.WithCodec(protobufCodec{}), connect.WithReadMaxBytes(int(o.MaxBody)),
	)
	own := connect.WithHandlerOptions(common, connect.WithInterceptors(interceptors...))
	reflector := grpcreflect.NewStaticReflector(append(services(), grpchealth.HealthV1ServiceName)...)

	mux := http.NewServeMux()
	mux.Handle(potconnect.NewPotHandler(pots{service}, own))
	mux.Handle(coinconnect.NewCoinHandler(coins{service}, own))
	mux.Handle(grpchealth.NewHandler(health{o.Ready}, common))
	mux.Handle(grpcreflect.NewHandlerV1(reflector, common))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, common))

	for path, op := range operations() {
		e.POST(path, procedure{handler: mux, request: op.request, maxBody: o.MaxBody}.serve)
		e.POST(twirp+path,
			procedure{handler: http.StripPrefix(twirp, mux), request: op.request, maxBody: o.MaxBody}.serveTwirp)
	}
	e.POST(healthCheck, procedure{handler: mux, maxBody: o.MaxBody}.serve)
	for _, path := range Streams() {
		e.POST(path, procedure{handler: mux, stream: true, maxBody: o.MaxBody}.serve)
	}
	return nil
}

// interceptors returns the interceptors of a call of the contract, in their order.
func interceptors(tracers trace.TracerProvider, ops *telemetry.Operations) (all []connect.Interceptor, err error) {
	call := &interceptor{ops: ops, operations: operations()}

	// Compile the rules of every request, so that a wrong rule stops the start, and the first request is as fast as any
	// other.
	requests := make([]proto.Message, 0, len(call.operations))
	for _, op := range call.operations {
		requests = append(requests, op.request)
	}
	call.validator, err = protovalidate.New(protovalidate.WithDisableLazy(), protovalidate.WithMessages(requests...))
	if err != nil {
		return nil, fmt.Errorf("the contract's rules: %w", err)
	}

	if tracers != nil {
		traced, err := otelconnect.NewInterceptor(otelconnect.WithTracerProvider(tracers), otelconnect.WithoutMetrics())
		if err != nil {
			return nil, fmt.Errorf("trace calls: %w", err)
		}
		all, call.traced = append(all, traced), true
	}
	return append(all, connect.UnaryInterceptorFunc(call.wrap)), nil
}

// interceptor serves the calls of the contract: it checks their rules, starts their spans, and returns the errors of
// handlers as Connect errors.
type interceptor struct {
	operations map[string]operation
	validator  protovalidate.Validator
	ops        *telemetry.Operations // nil without tracing
	traced     bool
}

func (i *interceptor) wrap(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		returned := false
		defer func() {
			if !returned { // a panic, which continues to the server; otelconnect does not fail its span
				span := trace.SpanFromContext(ctx)
				span.SetAttributes(semconv.ErrorTypeKey.String(problem.Internal.Code()))
				span.SetStatus(codes.Error, "")
			}
		}()
		answer, err := i.serve(ctx, request, next)
		returned = true
		if err == nil {
			return answer, nil
		}

		//nolint:errorlint // Connect returns the bare error before it calls the method
		if over := ctx.Err(); over != nil && err == over {
			err = fmt.Errorf("%w: %w", pot.ErrTimeOver, over)
		}
		refused := connectError(httpserver.Refuse(ctx, err))
		// otelconnect does not treat a client that hung up as a fault of the server, so the span does not fail. No client
		// reads the answer, and the log has the error.
		if i.traced && errors.Is(ctx.Err(), context.Canceled) {
			refused = connect.NewError(connect.CodeCanceled, context.Canceled)
		}
		return nil, refused
	}
}

func (i *interceptor) serve(
	ctx context.Context, request connect.AnyRequest, next connect.UnaryFunc,
) (answer connect.AnyResponse, err error) {
	if err := validate(i.validator, request.Any()); err != nil {
		return nil, err
	}
	if i.ops != nil {
		var end func(*error)
		ctx, end = i.ops.Start(ctx, i.operations[request.Spec().Procedure].span)
		defer end(&err)
	}
	return next(ctx, request)
}
