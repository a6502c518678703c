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
	// readHeaderTimeout closes a connection whose header arrives too slowly.
	readHeaderTimeout = 5 * time.Second
	// bodyGrace is how much longer than the request's timeout its body may take. answerGrace is larger, so that a request
	// with a late body still gets an answer.
	bodyGrace   = 5 * time.Second
	answerGrace = 10 * time.Second
	// maxHeader bounds request line and headers together. net/http adds 4 KiB to its setting.
	maxHeader        = 32 << 10
	netHTTPHeaderGap = 4 << 10
)

// endpoint serves HTTP on a listener that is bound before serving starts. Server and Admin embed it.
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
			IdleTimeout:       defaultIdleTimeout,
			MaxHeaderBytes:    maxHeader - netHTTPHeaderGap,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}
}

// Name returns the listener's name in logs and metrics.
func (e *endpoint) Name() string { return e.name }

// Listen binds the address and logs it, so that an address in use is reported before anything else starts. Connections
// queue until Serve answers them.
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

// Addr returns the bound address; nil before Listen.
func (e *endpoint) Addr() net.Addr {
	if ln := e.listener.Load(); ln != nil {
		return (*ln).Addr()
	}
	return nil
}

// Serve answers requests until Shutdown is called, even if that was before Serve. It returns nil then, while Shutdown
// waits for requests in flight. Call it after Listen.
func (e *endpoint) Serve() error {
	if err := e.http.Serve(*e.listener.Load()); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the %s listener: %w", e.name, err)
	}
	return nil
}

// Shutdown stops accepting connections and waits for the requests in flight. If ctx ends first, it closes their
// connections and returns an error.
func (e *endpoint) Shutdown(ctx context.Context) error {
	if err := e.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("the %s listener: requests were cut off: %w", e.name, err), e.http.Close())
	}
	return nil
}
