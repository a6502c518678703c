package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// readHeaderTimeout ends a connection whose header arrives too slowly.
	readHeaderTimeout = 5 * time.Second
	// idleTimeout ends a connection that sends nothing more.
	idleTimeout = 60 * time.Second
	// bodyGrace is what a body may take to arrive beyond the request's own time. answerGrace is larger, so that a request
	// whose body came late still gets an answer.
	bodyGrace   = 5 * time.Second
	answerGrace = 10 * time.Second
	// maxHeader is the size of request line and headers. net/http adds 4 KiB to its setting.
	maxHeader        = 32 << 10
	netHTTPHeaderGap = 4 << 10
)

// endpoint serves HTTP on a listener that is bound before anything is served. Server and Admin embed it.
type endpoint struct {
	name string
	addr string
	log  *slog.Logger
	http *http.Server

	listener atomic.Pointer[net.Listener] // nil before Listen
}

func newEndpoint(name, addr string, handler http.Handler, log *slog.Logger) *endpoint {
	return &endpoint{
		name: name, addr: addr, log: log,
		http: &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       defaultRequestTimeout + bodyGrace,
			WriteTimeout:      defaultRequestTimeout + answerGrace,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader - netHTTPHeaderGap,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}
}

// Name returns the listener's name in logs and metrics.
func (e *endpoint) Name() string { return e.name }

// Listen binds the address, so that an address in use is known before anything else starts, and logs it. From then on
// connections queue; Serve answers them.
func (e *endpoint) Listen(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", e.addr)
	if err != nil {
		return fmt.Errorf("the %s listener cannot use %s: %w", e.name, e.addr, err)
	}
	e.listener.Store(&ln)
	e.log.LogAttrs(ctx, slog.LevelInfo, "listening",
		slog.String("server", e.name), slog.String("addr", ln.Addr().String()))
	return nil
}

// Addr returns the bound address, nil before Listen.
func (e *endpoint) Addr() net.Addr {
	if ln := e.listener.Load(); ln != nil {
		return (*ln).Addr()
	}
	return nil
}

// Serve answers requests until Shutdown; then it returns nil at once, while Shutdown waits for the requests in flight.
func (e *endpoint) Serve() error {
	ln := e.listener.Load()
	if ln == nil {
		return fmt.Errorf("the %s listener: Serve before Listen", e.name)
	}
	if err := e.http.Serve(*ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the %s listener: %w", e.name, err)
	}
	return nil
}

// Close closes the listener and all connections at once.
func (e *endpoint) Close() error {
	return errors.Join(e.http.Close(), e.closeListener())
}

// closeListener closes the listener itself: net/http knows it only when Serve was called.
func (e *endpoint) closeListener() error {
	ln := e.listener.Load()
	if ln == nil {
		return nil
	}
	if err := (*ln).Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("the %s listener: %w", e.name, err)
	}
	return nil
}

// Shutdown stops accepting and waits for the requests in flight. When ctx ends before they do, it closes their
// connections and returns an error.
func (e *endpoint) Shutdown(ctx context.Context) error {
	err := e.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("the %s listener: requests were cut off: %w", e.name, err), e.http.Close())
	}
	return errors.Join(err, e.closeListener())
}
