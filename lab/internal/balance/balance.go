// Package balance gives the replicas of a service one address.
//
// It is an HTTP reverse proxy that takes the replicas in turn and knows one
// thing that a simpler one does not: the difference between a request that was
// sent and one that was not. A replica that cannot be dialled has seen nothing,
// so the next one is asked. A request that was sent is never sent again: when
// its answer is lost, the client is told that the outcome is unknown. Guessing
// would count something twice. (net/http itself repeats a GET whose connection
// was closed under it; that changes nothing.)
package balance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/lab/internal/replica"
	"github.com/rowlock/rowlock/platform/problem"
)

// ServedBy is the response header that names the replica which answered.
const ServedBy = "X-Served-By"

const (
	// dialTimeout bounds one dial; on this machine a dial is answered at once or never.
	dialTimeout = 2 * time.Second
	// idleTimeout is less than the services' 60 s, and than the 5 s after which they
	// close a connection that was opened in vain, so that it is this side that closes
	// an idle connection: a request could otherwise cross with the close.
	idleTimeout = 3 * time.Second
	// maxIdle is more connections to one replica than a laptop's demo keeps busy.
	maxIdle = 512
	// maxHeader leaves the limit on headers, 32 KiB, to the services.
	maxHeader = 128 << 10
	// headerTimeout and requestTimeout bound how long a client may send; without
	// them one that sends nothing more would stay for good. net/http gives up a
	// request that is being served then, too, so the second one is far above the
	// services' REQUEST_TIMEOUT.
	headerTimeout  = 5 * time.Second
	requestTimeout = time.Minute
	// copyBuffer is what httputil takes for copying a body.
	copyBuffer = 32 << 10
)

// Source lists the replicas that take requests; [replica.Set] is one.
type Source interface {
	// Backends is called for each request. The list is not changed by the callee.
	Backends() []replica.Backend
}

// Balancer serves the address of one service.
type Balancer struct {
	service string
	server  *http.Server
	base    *http.Transport
}

// New returns a balancer for the service. log gets what net/http has to say.
func New(service string, source Source, log *slog.Logger) *Balancer {
	base := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true, // the answer is the replica's, byte for byte
	}
	b := &Balancer{service: service, base: base}
	stdLog := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	b.server = &http.Server{
		Handler: bodies{next: &httputil.ReverseProxy{
			Rewrite:      rewrite,
			Transport:    &turns{service: service, source: source, base: base},
			ErrorHandler: b.fail,
			ErrorLog:     stdLog,
			BufferPool:   &buffers{},
		}},
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          stdLog,
	}
	return b
}

// Serve accepts connections on ln, which it closes at the end. It returns nil
// after [Balancer.Shutdown].
func (b *Balancer) Serve(ln net.Listener) error {
	if err := b.server.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("balancer of %s: %w", b.service, err)
	}
	return nil
}

// ErrCutOff says that clients were still sending or reading when the time of a
// [Balancer.Shutdown] was over.
var ErrCutOff = errors.New("requests were cut off")

// Shutdown stops accepting and waits for the requests in flight; when ctx ends
// it cuts them off and returns [ErrCutOff] together with the context's error.
func (b *Balancer) Shutdown(ctx context.Context) error {
	defer b.base.CloseIdleConnections()
	err := b.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("balancer of %s: %w: %w", b.service, ErrCutOff, err), b.server.Close())
	}
	return err
}

// rewrite leaves path and query as they came: what they mean is for the service.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme = "http"
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.SetXForwarded()
}

// fail answers a request that no replica answered.
func (b *Balancer) fail(w http.ResponseWriter, r *http.Request, err error) {
	if failure := bodyFailure(r.Context()); failure != nil {
		refuseBody(w, failure)
		return
	}
	p := b.problem(r, err)
	// The error is that of the client's connection, which is gone then.
	_ = problem.Write(w, p, "")
}

func (b *Balancer) problem(r *http.Request, err error) *problem.Error {
	var none *noReplicaError
	switch {
	case errors.As(err, &none):
		return problem.NotApplied.New("No replica of "+b.service+" takes requests at the moment. Nothing was changed.", problem.Cause(err))
	case r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions:
		return problem.NotApplied.New("The replica of "+b.service+" was lost before it answered. Nothing was to be changed.", problem.Cause(err))
	default:
		return problem.OutcomeUnknown.New("The replica of "+b.service+" was lost before it answered. The change may or may not have been made.",
			problem.Cause(err))
	}
}

// noReplicaError means that the request was not sent to any replica.
type noReplicaError struct {
	service string
	last    error // of the last dial; nil when there was nobody to dial
}

func (e *noReplicaError) Error() string {
	if e.last == nil {
		return "no replica of " + e.service + " is ready"
	}
	return "no replica of " + e.service + " can be reached: " + e.last.Error()
}

func (e *noReplicaError) Unwrap() error { return e.last }

// turns is the transport that takes the replicas in turn.
type turns struct {
	service string
	source  Source
	base    http.RoundTripper
	next    atomic.Uint64
}

// RoundTrip sends the request to the first replica, from the next in turn on,
// that can be dialled.
func (t *turns) RoundTrip(req *http.Request) (*http.Response, error) {
	list := t.source.Backends()
	none := &noReplicaError{service: t.service}
	first := t.next.Add(1)
	for i := range uint64(len(list)) {
		backend := list[(first+i)%uint64(len(list))]
		resp, err := t.base.RoundTrip(addressed(req, backend.Addr))
		if err == nil {
			resp.Header.Set(ServedBy, backend.Name)
			return resp, nil
		}
		if !undialled(err) || req.Context().Err() != nil {
			return nil, fmt.Errorf("%s: %w", backend.Name, err)
		}
		none.last = err
	}
	return nil, none
}

// addressed is the request for one replica. Its body stays open when the dial
// fails, for the next one; httputil.ReverseProxy closes it in the end.
func addressed(req *http.Request, addr string) *http.Request {
	out := req.WithContext(req.Context()) // a shallow copy: a RoundTripper must not change its request
	url := *req.URL
	url.Host = addr
	out.URL = &url
	if req.Body != nil && req.Body != http.NoBody {
		out.Body = io.NopCloser(req.Body)
	}
	return out
}

// undialled tells whether the error came before there was a connection.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// buffers lends the buffers that bodies are copied with.
type buffers struct{ pool sync.Pool }

// Get lends a buffer.
func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, copyBuffer)
}

// Put takes it back.
func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }
