package httpserver

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/problem"
)

// Config configures one listener of a service.
type Config struct {
	// Name is the listener's name in logs and its label in metrics: "api", "internal".
	Name string
	// Addr is host:port; port 0 selects a free one.
	Addr string
	// MaxBody is the largest request body in bytes. Defaults to 64 KiB.
	MaxBody int64
	// MaxInFlight limits concurrent requests. Defaults to 1024. Up to 16 times as many wait briefly for a permit, and up
	// to 8 times as many bodies are awaited before that.
	MaxInFlight int
	// MaxLasting limits concurrent long requests: streams, extended requests and requests with bodies above 64 KiB.
	// Defaults to a quarter of MaxInFlight, which is also the maximum.
	MaxLasting int
	// RequestTimeout is the deadline of a request's context. Defaults to 10 s.
	RequestTimeout time.Duration
	// IdleTimeout closes a connection without requests. Defaults to 10 min. A balancer that keeps connections for longer
	// sends requests into ones that are being closed.
	IdleTimeout time.Duration
	// MaxConnectionAge is the age, give or take a tenth, from which an answer closes its connection. So clients that
	// keep their connections reach new replicas. Defaults to 30 min.
	MaxConnectionAge time.Duration
	// ShutdownDelay is the time for which Shutdown goes on serving before it drains.
	ShutdownDelay time.Duration
	// LogRequests is all, errors (4xx, 5xx, slower than 1 s) or none. Defaults to errors, which logs at most ten lines a
	// second for each code. A 500 is always logged: it is a bug or worse.
	LogRequests string
	// Docs holds the contract; without it no documentation is served.
	Docs Docs
}

// Docs holds what /openapi.yaml, /openapi.json and /docs show.
type Docs struct {
	// Title is the title of the page.
	Title string
	// OpenAPI is the contract as OpenAPI 3 in YAML; empty: the routes are not served.
	OpenAPI []byte
	// Version replaces info.version if the contract has "version: 0.0.0"; empty: it stays.
	Version string
}

// Deps holds what a Server needs from its caller.
type Deps struct {
	// Log receives the access log and connection errors; required.
	Log *slog.Logger
	// Registry receives the metrics; required. Several servers may share it.
	Registry prometheus.Registerer
	// TracerProvider creates the spans; nil: tracing is off, and no request pays for it.
	TracerProvider trace.TracerProvider
	// Propagator reads the client's span from the header; required with a TracerProvider.
	Propagator propagation.TextMapPropagator
	// Guard identifies callers and checks their rights; nil admits all requests.
	Guard *auth.Guard
	// Right returns the right that a request needs, by its method and its route's template; nil selects
	// auth.RightOf(method). The contract and its page are always public.
	Right func(method, route string) auth.Right
	// Errors translate the handlers' errors, in this order; each returns nil for an unknown error. A *problem.Error needs
	// no translation.
	Errors []func(error) *problem.Error
	// WriteError writes every error answer; nil selects problem+json.
	WriteError ErrorWriter
}

const (
	defaultMaxBody        = 64 << 10
	defaultMaxInFlight    = 1024
	defaultRequestTimeout = 10 * time.Second
	defaultIdleTimeout    = 10 * time.Minute
	defaultConnectionAge  = 30 * time.Minute
)

// withDefaults replaces zeros with defaults.
func (c Config) withDefaults() Config {
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, defaultMaxInFlight)
	share := max(c.MaxInFlight/lastingShare, 1)
	c.MaxLasting = min(cmp.Or(c.MaxLasting, share), share)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, defaultRequestTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, defaultIdleTimeout)
	c.MaxConnectionAge = cmp.Or(c.MaxConnectionAge, defaultConnectionAge)
	c.LogRequests = cmp.Or(c.LogRequests, logErrors)
	return c
}

// Server is one API listener. Register routes on Echo, then call Listen, Serve and, from another goroutine, Shutdown.
type Server struct {
	*endpoint

	cfg       Config
	deps      Deps
	echo      *echo.Echo
	routes    map[routeKey]string // templates
	metrics   *metrics
	tracer    trace.Tracer // nil: tracing is off
	sparse    sync.Map     // code -> *telemetry.Sparse: the lines of the access log
	admission admission
	arrivals  arrivals
	rests     arrivals        // of bodies whose requests are answered
	streams   map[string]bool // routes
	public    map[string]bool // routes of the contract and its page
	draining  atomic.Bool
	partTime  time.Duration // partTime of slowreader.go; shorter in tests
}

// New creates a server and registers its metrics, labelled with its name. It panics if the registry has them already,
// or if the contract is not YAML.
func New(cfg Config, deps Deps) *Server {
	cfg = cfg.withDefaults()
	if deps.WriteError == nil {
		deps.WriteError = writeProblem
	}
	if deps.Right == nil {
		deps.Right = func(method, _ string) auth.Right { return auth.RightOf(method) }
	}

	s := &Server{cfg: cfg, deps: deps, echo: echo.New(), routes: make(map[routeKey]string), partTime: partTime}
	s.public = make(map[string]bool)
	s.admission.permits = make(chan struct{}, cfg.MaxInFlight)
	s.admission.lasting = make(chan struct{}, cfg.MaxLasting)
	s.arrivals.mostAwaited, s.arrivals.mostBytes = arrivingPerPermit*cfg.MaxInFlight, arrivedBytes
	s.rests.mostAwaited = arrivingPerPermit * cfg.MaxInFlight
	s.metrics = newMetrics(cfg.Name, deps.Registry, &s.admission)
	if deps.TracerProvider != nil {
		s.tracer = deps.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/httpserver")
	}

	// echo only routes; codec, errors, log and middleware are ours.
	s.echo.Logger.SetOutput(io.Discard)
	s.echo.Binder = binder{}
	s.echo.JSONSerializer = serializer{}
	s.echo.HTTPErrorHandler = s.handleError
	s.echo.OnAddRouteHandler = s.routeAdded
	s.use()

	s.endpoint = newEndpoint(cfg.Name, cfg.Addr, s, deps.Log)
	s.http.ReadTimeout = cfg.RequestTimeout + bodyGrace
	s.http.WriteTimeout = cfg.RequestTimeout + answerGrace
	s.http.IdleTimeout = cfg.IdleTimeout
	s.http.ConnContext = s.connected
	if len(cfg.Docs.OpenAPI) > 0 {
		s.serveDocs(cfg.Docs)
	}
	return s
}

// Echo returns the router. Register routes before Serve.
func (s *Server) Echo() *echo.Echo { return s.echo }

// ServeHTTP answers one request. Tests may call it without a listener.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.URL.RawPath = r.URL.EscapedPath() // echo then routes on the path as it was sent
	s.echo.ServeHTTP(w, r)
}

const (
	// maxStreams bounds the requests in flight on one HTTP/2 connection. It is high, because a few clients may hold few
	// connections; MAX_IN_FLIGHT bounds the sum.
	maxStreams = 1000
	// pingAfter and pongWithin close a connection whose peer is gone.
	pingAfter  = 30 * time.Second
	pongWithin = 10 * time.Second
)

// AllowHTTP2 also accepts HTTP/2, on the same port and without TLS ("prior knowledge", RFC 9113 section 3.3), as gRPC
// clients inside a cluster use it. Call it before Serve.
//
// The limits of an HTTP/1 connection apply to an HTTP/2 stream: header, body, time. An answer's "Connection: close"
// becomes a GOAWAY: the streams in flight end on this connection, and the client opens another for its next request.
func (s *Server) AllowHTTP2() {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http.Protocols = &protocols
	s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pongWithin}
}

// closeAtKey is the key of a connection's closeAt in the contexts of its requests.
type closeAtKey struct{}

// connected is a ConnContext of http.Server. It limits the send buffer, and draws the time from which answers close the
// connection: at random, so that connections that were opened together are not closed together.
func (s *Server) connected(ctx context.Context, c net.Conn) context.Context {
	limitSendBuffer(c)
	age := s.cfg.MaxConnectionAge
	closeAt := time.Now().Add(age - age/10 + rand.N(age/5+1))
	return context.WithValue(ctx, closeAtKey{}, closeAt)
}

// mustClose reports whether the answer to r closes its connection.
func (s *Server) mustClose(r *http.Request) bool {
	closeAt, ok := r.Context().Value(closeAtKey{}).(time.Time)
	return s.draining.Load() || ok && time.Now().After(closeAt)
}

// Stream leaves the bodies of these paths to their handlers, which may answer before a body has ended. Bodies of other
// routes arrive before their requests take a permit. Call it before Serve.
func (s *Server) Stream(paths ...string) {
	s.streams = make(map[string]bool, len(paths))
	for _, path := range paths {
		s.streams[path] = true
	}
}

// Shutdown goes on serving for Config.ShutdownDelay, adding "Connection: close" to answers. Then it stops accepting
// connections and waits for the requests in flight. If ctx ends first, it closes their connections, which ends their
// contexts, and returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	select {
	case <-time.After(s.cfg.ShutdownDelay):
	case <-ctx.Done():
	}
	return s.endpoint.Shutdown(ctx)
}
