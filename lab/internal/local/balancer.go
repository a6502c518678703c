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
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowlock/rowlock/platform/problem"
)

// ServedBy is the response header that names the replica which answered.
const ServedBy = "X-Served-By"

const (
	// dialTimeout bounds one dial in the loopback interface.
	dialTimeout = 2 * time.Second
	// idleTimeout is shorter than the services' IDLE_TIMEOUT, and than the 5 s after which they close a
	// connection on which nothing was sent. The balancer therefore closes idle connections first, and
	// no request crosses with a close.
	idleTimeout = 3 * time.Second
	// maxIdle bounds the idle connections to one replica.
	maxIdle = 512
	// headerTimeout and requestTimeout bound how long a client may take to send headers and body.
	// requestTimeout exceeds the services' REQUEST_TIMEOUT: net/http cancels a running request when it passes.
	headerTimeout  = 5 * time.Second
	requestTimeout = time.Minute
)

// stopTime bounds the wait for requests in flight, whose clients may be slow to send or to read.
const stopTime = 5 * time.Second

// Balancer gives the replicas of a service one address. It is a reverse proxy that takes them in turn.
//
// A replica that cannot be dialled has seen nothing of the request, so the next one is asked. A request
// that was sent is never sent again: when its answer is lost, the client gets 500 OUTCOME_UNKNOWN.
type Balancer struct {
	service  string
	listener net.Listener
	server   *http.Server
	base     *http.Transport
	set      atomic.Pointer[Set] // nil before To
	next     atomic.Uint64

	mu     sync.Mutex
	served map[string]*hdrhistogram.Histogram // answer times by replica, since Served was called
}

// Served is what a replica has answered in some time: how many requests, and the 99th percentile of their times.
type Served struct {
	Requests int64
	P99      time.Duration
}

// Served returns what each replica has answered since it was called last. Answer times end with the header.
func (b *Balancer) Served() map[string]Served {
	b.mu.Lock()
	served := b.served
	b.served = map[string]*hdrhistogram.Histogram{}
	b.mu.Unlock()
	all := make(map[string]Served, len(served))
	for name, times := range served {
		all[name] = Served{times.TotalCount(), time.Duration(times.ValueAtQuantile(99)) * time.Microsecond}
	}
	return all
}

// note notes an answer of a replica.
func (b *Balancer) note(replica string, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	times := b.served[replica]
	if times == nil {
		times = hdrhistogram.New(1, requestTimeout.Microseconds(), 2)
		b.served[replica] = times
	}
	_ = times.RecordValue(took.Microseconds()) // fails for one above requestTimeout
}

// NewBalancer listens on a port of 127.0.0.1, on a free one where it is 0, and refuses requests until
// [Balancer.To] names replicas.
func NewBalancer(ctx context.Context, service string, port int) (*Balancer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	b := &Balancer{
		service: service, listener: listener, served: map[string]*hdrhistogram.Histogram{},
		base: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			MaxIdleConnsPerHost: maxIdle,
			IdleConnTimeout:     idleTimeout,
			DisableCompression:  true, // answers pass unchanged
		},
	}

	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	b.server = &http.Server{
		Handler:           &httputil.ReverseProxy{Rewrite: rewrite, Transport: b, ErrorHandler: b.fail, ErrorLog: silent},
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       time.Minute,
		ErrorLog:          silent,
	}

	go func() { _ = b.server.Serve(listener) }() // until Stop
	return b, nil
}

// URL returns the address.
func (b *Balancer) URL() string { return "http://" + b.listener.Addr().String() }

// To sends requests to the replicas of set from now on; to none where it is nil.
func (b *Balancer) To(set *Set) { b.set.Store(set) }

// Stop stops accepting connections and waits for the requests in flight, up to five seconds or until ctx ends; then it
// closes their connections and returns an error.
func (b *Balancer) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	defer b.base.CloseIdleConnections()
	if err := b.server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("balancer of %s: requests were cut off: %w", b.service, err), b.server.Close())
	}
	return nil
}

// rewrite passes path and query on unchanged, invalid ones too: the service answers them.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme = "http"
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.SetXForwarded()
}

// fail answers a request that no replica answered.
func (b *Balancer) fail(w http.ResponseWriter, r *http.Request, err error) {
	kind, detail := problem.NotApplied, "No replica of "+b.service+" takes requests. Nothing was changed."
	switch {
	case errors.Is(err, errNotSent):
	case isRead(r.Method):
		detail = "The replica of " + b.service + " was lost before it answered. The request changes nothing."
	default:
		kind = problem.OutcomeUnknown
		detail = "The replica of " + b.service + " was lost before it answered. The change may or may not have been made."
	}

	// A write fails when the client has closed its connection.
	_ = problem.Write(w, kind.New(detail, problem.Cause(err)), "")
}

// errNotSent reports that the request was sent to no replica.
var errNotSent = errors.New("no replica could be reached")

// RoundTrip sends the request to the next replica that can be dialled.
func (b *Balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	var list []Status
	if set := b.set.Load(); set != nil {
		list = set.Ready()
	}
	notSent := errNotSent
	first := b.next.Add(1)
	for i := range uint64(len(list)) {
		replica := list[(first+i)%uint64(len(list))]
		begun := time.Now()
		resp, err := b.base.RoundTrip(addressed(req, replica.API))
		if err == nil {
			b.note(replica.Name, time.Since(begun))
			resp.Header.Set(ServedBy, replica.Name)
			return resp, nil
		}
		if !isDialError(err) || req.Context().Err() != nil {
			return nil, fmt.Errorf("%s: %w", replica.Name, err)
		}
		notSent = errors.Join(notSent, err)
	}
	return nil, notSent
}

// addressed returns the request for one replica. The transport closes the body when a dial fails, and the next replica
// needs it, so it is wrapped; httputil.ReverseProxy closes the body itself. An empty body is wrapped, too: net/http
// itself repeats a request without one when it has an Idempotency-Key.
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
