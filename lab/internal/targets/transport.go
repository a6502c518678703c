package targets

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
)

const (
	// answerTimeout is longer than REQUEST_TIMEOUT, so that the service itself says what was wrong.
	answerTimeout = 18 * time.Second
	// idleTimeout is shorter than the five seconds after which a server closes an idle connection.
	idleTimeout = 2 * time.Second
	idlePerHost = 1024 // more than window hostile has callers
)

// HTTPClient returns a client for many goroutines that keeps connections and
// sends each request once: Go's transport would repeat one that has an
// Idempotency-Key by itself when its answer is lost. answerTimeout bounds a
// request.
func HTTPClient() *http.Client {
	return &http.Client{Transport: newTransport(), Timeout: answerTimeout}
}

// Once returns the options of a client that sends each call once, by c: what is
// recorded and counted is what a service has answered.
func Once(c *http.Client) []rowlock.Option {
	return []rowlock.Option{rowlock.WithHTTPClient(c), rowlock.WithoutRetries()}
}

type transport struct {
	*http.Transport

	// redialFor is how long a refused connection is tried again; a refused one carried nothing.
	redialFor time.Duration
	redials   atomic.Int64
	// perConnection is after how many requests one connection is closed, so that the load finds new replicas; 0 for never.
	perConnection int64
	requests      atomic.Int64
}

func newTransport() *transport {
	return &transport{Transport: &http.Transport{MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleTimeout}}
}

// redialWait is the time between two tries to connect.
const redialWait = 50 * time.Millisecond

// RoundTrip sends a request once it can connect.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for deadline := time.Now().Add(t.redialFor); ; {
		once := req.Clone(req.Context())
		if req.GetBody != nil {
			once.Body, _ = req.GetBody() // never fails for a body in memory
		}
		once.GetBody = nil // without it the transport cannot send the request again
		n := t.requests.Add(1)
		once.Close = t.perConnection > 0 && n%t.perConnection == 0
		resp, err := t.Transport.RoundTrip(once)
		if !refused(err) || time.Now().After(deadline) {
			return resp, err //nolint:wrapcheck // the clients classify it
		}
		t.redials.Add(1)
		select {
		case <-time.After(redialWait):
		case <-req.Context().Done():
			return nil, err //nolint:wrapcheck // as above
		}
	}
}

// refused reports whether no connection was made.
func refused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
