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

// twirp is the path prefix of Twirp clients.
const twirp = "/twirp"

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

// Register registers the procedures of both ports on e, each also under /twirp, and gRPC's health check and reflection.
// Each procedure has a separate route, so that it has the same metrics, logs and limits as any other API, and a span
// from ops, which is nil without tracing.
func Register(
	e *echo.Echo, potAPI pot.PotsAPI, coinAPI pot.CoinsAPI, o Options, ops *telemetry.Operations,
) error {
	interceptors, err := interceptors(o.TracerProvider, ops)
	if err != nil {
		return err
	}
	common := connect.WithHandlerOptions(connect.WithCodec(jsonCodec{}), connect.WithReadMaxBytes(int(o.MaxBody)))
	own := connect.WithHandlerOptions(common, connect.WithInterceptors(interceptors...))
	reflector := grpcreflect.NewStaticReflector(append(services(), grpchealth.HealthV1ServiceName)...)

	mux := http.NewServeMux()
	mux.Handle(potconnect.NewPotHandler(pots{potAPI}, own))
	mux.Handle(coinconnect.NewCoinHandler(coins{coinAPI}, own))
	mux.Handle(grpchealth.NewHandler(health{o.Ready}, common))
	mux.Handle(grpcreflect.NewHandlerV1(reflector, common))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, common))

	for path, op := range operations() {
		e.POST(path, procedure{handler: mux, request: op.request, maxBody: o.MaxBody}.serve)
		e.POST(twirp+path,
			procedure{handler: http.StripPrefix(twirp, mux), request: op.request, maxBody: o.MaxBody}.serve)
	}
	e.POST(healthCheck, procedure{handler: mux, maxBody: o.MaxBody}.serve)
	for _, path := range Streams() {
		e.POST(path, procedure{handler: mux, stream: true, maxBody: o.MaxBody}.serve)
	}
	return nil
}

// interceptors returns the interceptors of a call of the contract, in their order.
func interceptors(tracers trace.TracerProvider, ops *telemetry.Operations) ([]connect.Interceptor, error) {
	validator, err := newValidator()
	if err != nil {
		return nil, err
	}

	var all []connect.Interceptor
	if tracers != nil {
		traced, err := otelconnect.NewInterceptor(otelconnect.WithTracerProvider(tracers), otelconnect.WithoutMetrics())
		if err != nil {
			return nil, fmt.Errorf("trace calls: %w", err)
		}
		all = append(all, traced, interceptor(failPanicked), interceptor(cancelAbandoned))
	}
	all = append(all, interceptor(refuse), validated(validator))
	if ops != nil {
		all = append(all, startSpans(ops))
	}
	return all, nil
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

// startSpans returns an interceptor that starts a span of ops for each operation.
func startSpans(ops *telemetry.Operations) connect.UnaryInterceptorFunc {
	known := operations()
	return interceptor(func(
		ctx context.Context, request connect.AnyRequest, next connect.UnaryFunc,
	) (answer connect.AnyResponse, err error) {
		ctx, end := ops.Start(ctx, known[request.Spec().Procedure].span)
		defer end(&err)
		return next(ctx, request)
	})
}

// failPanicked fails the span of a call that panics, which otelconnect does not do. The panic continues to the server,
// which logs it and answers.
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

// cancelAbandoned returns CodeCanceled for a call that failed because its client hung up: otelconnect does not treat
// that as a fault of the server, so it does not fail the span. No client reads the answer, and the log has the error.
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
	//nolint:errorlint // Connect returns the bare error before it calls the method
	if over := ctx.Err(); over != nil && err == over {
		err = fmt.Errorf("%w: %w", pot.ErrTimeOver, over)
	}
	if err != nil {
		return nil, connectError(httpserver.Refuse(ctx, err))
	}
	return answer, nil
}
