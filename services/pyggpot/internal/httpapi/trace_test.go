package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/httpapi"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// stuck is a repository whose changes wait until the request ends and return err. Without entered they panic.
type stuck struct {
	pot.Repository

	entered chan struct{}
	err     error
}

func (r stuck) Change(ctx context.Context, _ pot.Change) (pot.Contents, error) {
	close(r.entered)
	<-ctx.Done()
	return nil, r.err
}

// traced serves the API with tracing and returns its URL and the spans.
func traced(t *testing.T, r pot.Repository) (base string, spans *tracetest.SpanRecorder) {
	t.Helper()
	spans = tracetest.NewSpanRecorder()
	provider := telemetry.NewProvider(spans)
	server := httpserver.New(httpserver.Config{Name: "api", Addr: "127.0.0.1:0"}, httpserver.Deps{
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), TracerProvider: provider,
		Propagator: propagation.TraceContext{},
		WriteError: httpapi.ErrorWriter(),
		Errors:     []func(error) *problem.Error{httpapi.ProblemOf},
	})
	err := httpapi.Register(server.Echo(), &pot.Service{Repository: r}, httpapi.Options{
		MaxBody: 1 << 16, Ready: func() (bool, string) { return true, "" }, TracerProvider: provider,
	}, nil)
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

// TestPanicFailsTheSpan: lab/observe has the calls that end.
func TestPanicFailsTheSpan(t *testing.T) {
	t.Parallel()
	base, spans := traced(t, stuck{})
	_, err := coinconnect.NewCoinClient(newClient(t), base).RemoveCoins(t.Context(),
		connect.NewRequest(&coin.RemoveCoinsRequest{PotId: 1, Count: 1}))
	if connect.CodeOf(err) != connect.CodeInternal {
		t.Errorf("got %v, want internal", err)
	}
	for _, span := range waitFor(t, spans, 2) {
		if span.Status().Code != codes.Error || len(span.Events()) != 0 {
			t.Errorf("%s: %v %v", span.Name(), span.Status(), span.Events())
		}
	}
}

// TestClientThatHungUpFailsNoSpan: a client that hangs up fails no span, whatever the result of its call; a deadline
// does.
func TestClientThatHungUpFailsNoSpan(t *testing.T) {
	t.Parallel()
	unavailable := problem.DatabaseUnavailable.New("The database is away.")
	for name, c := range map[string]struct {
		options []connect.ClientOption
		err     error
		timeout time.Duration // 0 hangs up
		code    string
	}{
		"connect, unavailable": {nil, unavailable, 0, "CANCELED"},
		"connect, a mistake":   {nil, pot.ErrFull, 0, "CANCELED"},
		"grpc, unavailable":    {[]connect.ClientOption{connect.WithGRPC()}, unavailable, 0, "CANCELED"},
		"connect, late":        {nil, unavailable, 200 * time.Millisecond, "UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := stuck{entered: make(chan struct{}), err: c.err}
			base, spans := traced(t, repo)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			request := connect.NewRequest(&coin.AddCoinsRequest{
				PotId: 1, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 1}},
			})
			if c.timeout > 0 { // by a header alone: the client itself waits on
				request.Header().Set("Connect-Timeout-Ms", strconv.FormatInt(c.timeout.Milliseconds(), 10))
			} else {
				go func() {
					<-repo.entered
					hangUp()
				}()
			}
			if _, err := coinconnect.NewCoinClient(newClient(t), base, c.options...).AddCoins(ctx, request); err == nil {
				t.Fatal("it was answered")
			}
			ended := waitFor(t, spans, 2)
			call, failed := ended[0], c.timeout > 0
			if !slices.Contains(call.Attributes(), semconv.RPCResponseStatusCode(c.code)) {
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

// waitFor returns the ended spans once there are n: a request's span ends after its answer.
func waitFor(t *testing.T, spans *tracetest.SpanRecorder, n int) []sdktrace.ReadOnlySpan {
	t.Helper()
	waittest.Eventually(t, "the spans have ended", func() bool { return len(spans.Ended()) >= n })
	return spans.Ended()
}
