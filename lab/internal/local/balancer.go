package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
)

// ServedBy is the response header that names the replica which answered.
const ServedBy = "X-Served-By"

const (
	// dialTimeout bounds one dial in the loopback interface.
	dialTimeout = 2 * time.Second
	// idleTimeout is shorter than the services' 60 s, and than the 5 s after which they close a
	// connection on which nothing was sent. The balancer therefore closes idle connections first, and
	// no request crosses with a close.
	idleTimeout = 3 * time.Second
	// maxIdle bounds the idle connections to one replica.
	maxIdle = 512
	// maxHeader exceeds the services' own limit on headers, 32 KiB, which they enforce.
	maxHeader = 128 << 10
	// headerTimeout and requestTimeout bound how long a client may take to send headers and body.
	// requestTimeout exceeds the services' REQUEST_TIMEOUT: net/http cancels a running request when it passes.
	headerTimeout  = 5 * time.Second
	requestTimeout = time.Minute
)

// Source lists the replicas that take requests. [Set] implements it.
type Source interface {
	// Backends is called once for each request. The caller does not change the list.
	Backends() []Backend
}

// Balancer gives the replicas of a service one address. It is a reverse proxy that takes them in turn.
//
// A replica that cannot be dialled has seen nothing of the request, so the next one is asked. A request
// that was sent is never sent again: when its answer is lost, the client gets 500 OUTCOME_UNKNOWN.
type Balancer struct {
	service string
	server  *http.Server
	base    *http.Transport
}

// NewBalancer returns a balancer for the replicas of source.
func NewBalancer(service string, source Source) *Balancer {
	base := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true, // answers pass unchanged
	}
	b := &Balancer{service: service, base: base}
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	b.server = &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite:      rewrite,
			Transport:    &turns{service: service, source: source, base: base},
			ErrorHandler: b.fail,
			ErrorLog:     silent,
		},
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          silent,
	}
	return b
}

// Serve accepts connections on ln, which it closes at the end. It returns nil after [Balancer.Shutdown].
func (b *Balancer) Serve(ln net.Listener) error {
	if err := b.server.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("balancer of %s: %w", b.service, err)
	}
	return nil
}

// Shutdown stops accepting connections and waits for the requests in flight. When ctx ends first, it closes
// their connections and returns the context's error.
func (b *Balancer) Shutdown(ctx context.Context) error {
	defer b.base.CloseIdleConnections()
	err := b.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("balancer of %s: requests were cut off: %w", b.service, err), b.server.Close())
	}
	return err
}

// rewrite passes path and query on unchanged, invalid ones too: the service answers them.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme = "http"
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.SetXForwarded()
}

// fail answers a request that no replica answered.
func (b *Balancer) fail(w http.ResponseWriter, r *http.Request, err error) {
	// A write fails when the client has closed its connection.
	_ = problem.Write(w, b.problem(r.Method, err), "")
}

func (b *Balancer) problem(method string, err error) *problem.Error {
	switch {
	case errors.Is(err, errNotSent):
		return problem.NotApplied.New("No replica of "+b.service+" takes requests. Nothing was changed.", problem.Cause(err))
	case isRead(method):
		return problem.NotApplied.New(
			"The replica of "+b.service+" was lost before it answered. The request changes nothing.", problem.Cause(err))
	default:
		return problem.OutcomeUnknown.New(
			"The replica of "+b.service+" was lost before it answered. The change may or may not have been made.",
			problem.Cause(err))
	}
}

// errNotSent reports that the request was sent to no replica.
var errNotSent = errors.New("no replica could be reached")

// turns is a transport that takes the replicas in turn.
type turns struct {
	service string
	source  Source
	base    http.RoundTripper
	next    atomic.Uint64
}

// RoundTrip sends the request to the next replica that can be dialled.
func (t *turns) RoundTrip(req *http.Request) (*http.Response, error) {
	list := t.source.Backends()
	notSent := fmt.Errorf("%s: %w", t.service, errNotSent)
	first := t.next.Add(1)
	for i := range uint64(len(list)) {
		backend := list[(first+i)%uint64(len(list))]
		resp, err := t.base.RoundTrip(addressed(req, backend.Addr))
		if err == nil {
			resp.Header.Set(ServedBy, backend.Name)
			return resp, nil
		}
		if !isDialError(err) || req.Context().Err() != nil {
			return nil, fmt.Errorf("%s: %w", backend.Name, err)
		}
		notSent = errors.Join(notSent, err)
	}
	return nil, notSent
}

// addressed returns the request for one replica. The transport closes the body when a dial fails, and the next replica
// needs it, so it is wrapped; httputil.ReverseProxy closes the body itself. An empty body is wrapped, too: net/http
// sends a request without one again, by itself, when it has an Idempotency-Key.
func addressed(req *http.Request, addr string) *http.Request {
	out := req.WithContext(req.Context()) // a shallow copy: a RoundTripper must not change its request
	url := *req.URL
	url.Host = addr
	out.URL = &url
	switch {
	case req.Body != nil:
		out.Body = io.NopCloser(req.Body)
	case !isRead(req.Method):
		out.Body = io.NopCloser(http.NoBody)
	}
	return out
}

// isRead reports whether requests of the method change nothing.
func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// isDialError reports whether err came before there was a connection.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
