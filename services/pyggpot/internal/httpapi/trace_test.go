package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/httpapi"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// failing implements the coins' port: Add finds no database, Remove panics.
type failing struct{}

func (failing) Add(context.Context, pot.ID, []pot.Coins) ([]pot.Coins, error) {
	return nil, problem.DatabaseUnavailable.New("The database is away.")
}

func (failing) Remove(context.Context, pot.ID, []pot.Coins, int64) ([]pot.Coins, error) {
	panic("s3cretMark")
}

// waiting implements the coins' port: Add waits until the request ends.
type waiting struct {
	failing

	entered chan struct{}
	err     error
}

func (w waiting) Add(ctx context.Context, _ pot.ID, _ []pot.Coins) ([]pot.Coins, error) {
	close(w.entered)
	<-ctx.Done()
	return nil, w.err
}

// empty implements the pots' port: it creates pots and finds none.
type empty struct{ pot.PotsAPI }

func (empty) Create(_ context.Context, name string, maxCoins int32) (pot.Pot, error) {
	return pot.Pot{ID: 1, Name: name, MaxCoins: maxCoins}, nil
}

func (empty) ViewByName(context.Context, string) (pot.Pot, error) { return pot.Pot{}, pot.ErrNotFound }

// traced serves the API with tracing and returns its URL and the spans.
func traced(t *testing.T, coins pot.CoinsAPI) (base string, spans *tracetest.SpanRecorder) {
	t.Helper()
	spans = tracetest.NewSpanRecorder()
	provider := telemetry.NewProvider(spans)
	server, err := httpserver.New(httpserver.Config{Name: "api", Addr: "127.0.0.1:0"}, httpserver.Deps{
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Tracing: true, TracerProvider: provider,
		Propagator: propagation.TraceContext{}, WriteError: httpapi.ErrorWriter(),
		Errors: []func(error) *problem.Error{httpapi.ProblemOf},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = httpapi.Register(server.Echo(), empty{}, coins, httpapi.Options{
		MaxBody: 1 << 16, Ready: func() (bool, string) { return true, "" }, TracerProvider: provider,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewUnstartedServer(server)
	listener.Config.Protocols = new(http.Protocols)
	listener.Config.Protocols.SetUnencryptedHTTP2(true)
	listener.Start()
	t.Cleanup(listener.Close)
	return listener.URL, spans
}

// TestCallsAreTraced: by every protocol a call has a span below that of its HTTP request, in the trace of its caller.
// It has the procedure and the code, nothing of the request, and fails when the service is at fault.
func TestCallsAreTraced(t *testing.T) {
	t.Parallel()
	const traceID, mark = "4bf92f3577b34da6a3ce929d0e0e4736", "s3cretMark"
	for protocol, options := range map[string][]connect.ClientOption{
		"connect": nil, "json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()},
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			base, spans := traced(t, failing{})
			client := newClient(t)
			pots := potconnect.NewPotClient(client, base, options...)
			coins := coinconnect.NewCoinClient(client, base, options...)

			_, err := pots.CreatePot(t.Context(), from(traceID, &potpb.CreatePotRequest{PotName: mark, MaxCoins: 10}))
			wantCode(t, err, 0)
			waitFor(t, spans, 2)
			_, err = pots.ViewPotByName(t.Context(), from(traceID, &potpb.ViewPotByNameRequest{PotName: "x" + mark}))
			wantCode(t, err, connect.CodeNotFound)
			waitFor(t, spans, 4)
			_, err = pots.CreatePot(t.Context(), from(traceID, &potpb.CreatePotRequest{PotName: mark + " !", MaxCoins: 10}))
			wantCode(t, err, connect.CodeInvalidArgument)
			waitFor(t, spans, 6)
			_, err = coins.AddCoins(t.Context(), from(traceID, &coin.AddCoinsRequest{
				PotId: 1, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 1}},
			}))
			wantCode(t, err, connect.CodeUnavailable)
			waitFor(t, spans, 8)
			_, err = coins.RemoveCoins(t.Context(), from(traceID, &coin.RemoveCoinsRequest{PotId: 1, Count: 1})) // panics
			wantCode(t, err, connect.CodeInternal)

			want := []struct {
				name, code string
				failed     bool
			}{
				{"pyggpot.pot.Pot/CreatePot", "", false},
				{"pyggpot.pot.Pot/ViewPotByName", "not_found", false},
				{"pyggpot.pot.Pot/CreatePot", "invalid_argument", false},
				{"pyggpot.coin.Coin/AddCoins", "unavailable", true},
				{"pyggpot.coin.Coin/RemoveCoins", "", true},
			}
			ended := waitFor(t, spans, 2*len(want))
			for i, w := range want {
				call, request := ended[2*i], ended[2*i+1]
				if call.Name() != w.name || request.Name() != "POST /"+w.name {
					t.Fatalf("spans %q below %q, want %s", call.Name(), request.Name(), w.name)
				}
				if call.Parent().SpanID() != request.SpanContext().SpanID() || call.SpanContext().TraceID().String() != traceID ||
					!request.Parent().IsRemote() || len(call.Links()) != 0 {
					t.Errorf("%s: %v below %v below %v", w.name, call.SpanContext(), call.Parent(), request.Parent())
				}
				for _, span := range []sdktrace.ReadOnlySpan{call, request} {
					if (span.Status().Code == codes.Error) != w.failed {
						t.Errorf("%s: %v", span.Name(), span.Status())
					}
					all := fmt.Sprint(span.Name(), span.Attributes(), span.Status(), span.Events())
					if strings.Contains(all, mark) || len(span.Attributes()) > 8 || len(span.Events()) != 0 {
						t.Errorf("%s has too much: %s", span.Name(), all)
					}
				}
				if !hasCode(call, w.code) {
					t.Errorf("%s: %v, want the code %q", call.Name(), call.Attributes(), w.code)
				}
			}
		})
	}
}

// TestClientThatHungUpFailsNoSpan: a client that hangs up fails no span, whatever became of its call; a deadline does.
func TestClientThatHungUpFailsNoSpan(t *testing.T) {
	t.Parallel()
	unavailable := problem.DatabaseUnavailable.New("The database is away.")
	for name, c := range map[string]struct {
		options []connect.ClientOption
		err     error
		timeout time.Duration // 0 hangs up
		code    string
	}{
		"connect, unavailable":  {nil, unavailable, 0, "canceled"},
		"connect, unknown":      {nil, problem.OutcomeUnknown.New("It may have been added."), 0, "canceled"},
		"connect, no time left": {nil, context.Canceled, 0, "canceled"},
		"connect, a mistake":    {nil, pot.ErrFull, 0, "canceled"},
		"grpc, unavailable":     {[]connect.ClientOption{connect.WithGRPC()}, unavailable, 0, "canceled"},
		"grpc-web, unavailable": {[]connect.ClientOption{connect.WithGRPCWeb()}, unavailable, 0, "canceled"},
		"connect, late":         {nil, unavailable, 200 * time.Millisecond, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := waiting{entered: make(chan struct{}), err: c.err}
			base, spans := traced(t, port)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			request := from("4bf92f3577b34da6a3ce929d0e0e4736", &coin.AddCoinsRequest{
				PotId: 1, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 1}},
			})
			if c.timeout > 0 { // by a header alone: the client itself waits on
				request.Header().Set("Connect-Timeout-Ms", strconv.FormatInt(c.timeout.Milliseconds(), 10))
			} else {
				go func() {
					<-port.entered
					hangUp()
				}()
			}
			if _, err := coinconnect.NewCoinClient(newClient(t), base, c.options...).AddCoins(ctx, request); err == nil {
				t.Fatal("it was answered")
			}
			ended := waitFor(t, spans, 2)
			call, failed := ended[0], c.timeout > 0
			if !hasCode(call, c.code) {
				t.Errorf("%s: %v, want the code %q", call.Name(), call.Attributes(), c.code)
			}
			for _, span := range ended {
				if (span.Status().Code == codes.Error) != failed || !failed && span.Status().Description != "" {
					t.Errorf("%s: %v", span.Name(), span.Status())
				}
			}
		})
	}
}

// newClient returns a client of HTTP/2 without TLS.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), IdleConnTimeout: 2 * time.Second}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// hasCode reports whether the span has this code, in the form of its protocol.
func hasCode(span sdktrace.ReadOnlySpan, code string) bool {
	for _, a := range span.Attributes() {
		switch a.Key {
		case "rpc.connect_rpc.error_code":
			return a.Value.AsString() == code
		case "rpc.grpc.status_code", "rpc.grpc_web.status_code":
			want := ""
			if n := a.Value.AsInt64(); n != 0 {
				want = connect.Code(n).String()
			}
			return want == code
		}
	}
	return code == ""
}

func from[T any](traceID string, message *T) *connect.Request[T] {
	r := connect.NewRequest(message)
	r.Header().Set("Traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	return r
}

func wantCode(t *testing.T, err error, want connect.Code) {
	t.Helper()
	if got := connect.CodeOf(err); err != nil && got != want || err == nil && want != 0 {
		t.Fatalf("%v, want %v", err, want)
	}
}

// waitFor returns the ended spans once there are n: a request's span ends after its answer.
func waitFor(t *testing.T, spans *tracetest.SpanRecorder, n int) []sdktrace.ReadOnlySpan {
	t.Helper()
	waittest.Eventually(t, "the spans have ended", func() bool { return len(spans.Ended()) >= n })
	return spans.Ended()
}
