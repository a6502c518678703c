package httpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
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

// Config is the part of a service's configuration that one listener needs.
type Config struct {
	// Name is the listener's name in logs and its label in metrics: "api", "internal".
	Name string
	// Addr is host:port; port 0 takes a free one.
	Addr string
	// MaxBody is the largest request body in bytes; 0 stands for 64 KiB.
	MaxBody int64
	// MaxInFlight is how many requests are worked on at once; 0 stands for 1024. Up to 16 times as many wait for a moment
	// until one of these ends, and the bodies of up to 8 times as many are awaited before that.
	MaxInFlight int
	// MaxLasting is how many requests with bodies above 64 KiB, streams and extended requests are worked on at once. A
	// quarter of MaxInFlight is the most, and what 0 stands for.
	MaxLasting int
	// RequestTimeout is the deadline of a request's context; 0 stands for 10 s.
	RequestTimeout time.Duration
	// ShutdownDelay is how long Shutdown goes on serving before it drains.
	ShutdownDelay time.Duration
	// LogRequests is all, errors (4xx, 5xx, slower than 1 s) or none; empty stands for errors, of which 401, 403, 502,
	// 503 and 504 get ten lines a second of each code at most. A 500 is logged in any case: it is a bug or worse.
	LogRequests string
	// Docs is the contract and its page; nothing is served without it.
	Docs Docs
}

// Docs is what /openapi.yaml, /openapi.json and /docs show.
type Docs struct {
	// Title is the title of the page.
	Title string
	// OpenAPI is the contract as OpenAPI 3 in YAML. Empty means no such routes.
	OpenAPI []byte
	// Version is served as info.version where the contract has "version: 0.0.0". Empty leaves that as it is.
	Version string
}

// Deps are what a Server needs from its caller.
type Deps struct {
	// Log gets the access log and the errors of connections; required.
	Log *slog.Logger
	// Registry gets the metrics; required. Several servers may share it.
	Registry prometheus.Registerer
	// TracerProvider and Propagator are used only when Tracing is true.
	TracerProvider trace.TracerProvider
	Propagator     propagation.TextMapPropagator
	// Tracing says whether spans are exported; without it no request pays for them.
	Tracing bool
	// Guard tells who sends a request, and whether they may; nil lets all requests on.
	Guard *auth.Guard
	// Right returns what a request of a method and a route's template needs; nil stands for auth.RightOf(method). The
	// contract and its page are public in any case.
	Right func(method, route string) auth.Right
	// Errors translate errors that handlers return, asked in this order; each returns nil for an error that it does not
	// know. A *problem.Error needs none.
	Errors []func(error) *problem.Error
	// WriteError writes every error answer; nil stands for problem+json.
	WriteError ErrorWriter
}

const (
	defaultMaxBody        = 64 << 10
	defaultMaxInFlight    = 1024
	defaultRequestTimeout = 10 * time.Second
)

// withDefaults fills in the zeros and refuses what cannot work.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		return c, errors.New("httpserver: the listener has no name")
	}
	if c.MaxBody < 0 || c.MaxInFlight < 0 || c.MaxLasting < 0 || c.RequestTimeout < 0 || c.ShutdownDelay < 0 {
		return c, errors.New("httpserver: a limit or a duration is negative")
	}
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, defaultMaxInFlight)
	share := max(c.MaxInFlight/lastingShare, 1)
	c.MaxLasting = min(cmp.Or(c.MaxLasting, share), share)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, defaultRequestTimeout)
	c.LogRequests = cmp.Or(c.LogRequests, logErrors)
	if !slices.Contains([]string{logAll, logErrors, logNone}, c.LogRequests) {
		return c, fmt.Errorf("httpserver: LOG_REQUESTS %q is not all, errors or none", c.LogRequests)
	}
	return c, nil
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
	streams   map[string]bool // routes
	public    map[string]bool // routes of the contract and its page
	draining  atomic.Bool
	partTime  time.Duration // that of slowreader.go; shorter in tests
}

// New makes a server and registers its metrics, labelled with its name. It fails on a setting that cannot work and on a
// contract that is not YAML.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if deps.Log == nil || deps.Registry == nil {
		return nil, errors.New("httpserver: Deps.Log and Deps.Registry are required")
	}
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
	if s.metrics, err = newMetrics(cfg.Name, deps.Registry, &s.admission); err != nil {
		return nil, err
	}
	if deps.Tracing {
		s.tracer = deps.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/httpserver")
	}
	s.echo.Logger.SetOutput(io.Discard) // what it would say is said here
	s.echo.Binder = binder{}
	s.echo.JSONSerializer = serializer{}
	s.echo.HTTPErrorHandler = s.handleError
	s.echo.OnAddRouteHandler = s.routeAdded
	s.use()

	s.endpoint = newEndpoint(cfg.Name, cfg.Addr, s, deps.Log)
	s.http.ReadTimeout = cfg.RequestTimeout + bodyGrace
	s.http.WriteTimeout = cfg.RequestTimeout + answerGrace
	s.http.ConnContext = limitSendBuffer
	if len(cfg.Docs.OpenAPI) > 0 {
		if err := s.serveDocs(cfg.Docs); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Echo returns the router. Register routes before Serve.
func (s *Server) Echo() *echo.Echo { return s.echo }

// ServeHTTP answers one request. Tests may call it without a listener.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.URL.RawPath = r.URL.EscapedPath() // echo routes on RawPath when there is one: on the path as it was sent
	s.echo.ServeHTTP(w, r)
}

const (
	// maxStreams is how many requests one HTTP/2 connection may have in flight: few clients hold many connections, so
	// MAX_IN_FLIGHT is what bounds them all.
	maxStreams = 1000
	// pingAfter and pongWithin end a connection whose other end is gone.
	pingAfter  = 30 * time.Second
	pongWithin = 10 * time.Second
)

// AllowHTTP2 lets clients speak HTTP/2 beside HTTP/1, on the same port and without TLS ("prior knowledge", RFC 9113
// section 3.3), as gRPC clients inside a cluster do. Call it before Serve.
//
// The limits of a connection of HTTP/1 hold for a stream of HTTP/2: header, body, time. While the server drains, an
// answer's "Connection: close" becomes a GOAWAY.
func (s *Server) AllowHTTP2() {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http.Protocols = &protocols
	s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pongWithin}
}

// Stream leaves the bodies of these paths to their handlers, which may answer before a body has ended. The bodies of
// other routes arrive before their requests are in flight. Call it before Serve.
func (s *Server) Stream(paths ...string) {
	s.streams = make(map[string]bool, len(paths))
	for _, path := range paths {
		s.streams[path] = true
	}
}

// Shutdown adds "Connection: close" to answers, goes on serving for Config.ShutdownDelay, stops accepting, and waits
// for the requests in flight. When ctx ends before they do, their connections are closed, their contexts end, and
// Shutdown returns an error that says so.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	if s.cfg.ShutdownDelay > 0 && s.Addr() != nil {
		timer := time.NewTimer(s.cfg.ShutdownDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return s.endpoint.Shutdown(ctx)
}
