package balance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/rowlock/rowlock/platform/problem"
)

// ahead is how much of a body is read before a replica gets the request: all
// of most. A client that is slow, or whose body is broken, then occupies no
// replica, and nothing was sent that could have changed anything.
const ahead = 64 << 10

// bodies reads ahead and remembers what was wrong with the rest.
type bodies struct{ next http.Handler }

// ServeHTTP hands the request on, or refuses one whose body is broken.
func (b bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		b.next.ServeHTTP(w, r)
		return
	}
	var start bytes.Buffer
	n, err := io.CopyN(&start, r.Body, ahead)
	if err != nil && !errors.Is(err, io.EOF) {
		refuseBody(w, err)
		return
	}
	body := &inbound{start: &start, rest: r.Body, whole: n < ahead}
	out := r.WithContext(context.WithValue(r.Context(), inboundKey{}, body)) // a shallow copy: a handler must not change its request
	out.Body = body
	b.next.ServeHTTP(w, out)
}

func refuseBody(w http.ResponseWriter, err error) {
	w.Header().Set("Connection", "close") // where the next request would begin is anybody's guess
	// The error is that of the client's connection, which is gone then.
	_ = problem.Write(w, brokenBody(err), "")
}

func brokenBody(err error) *problem.Error {
	return problem.InvalidJSON.New("The body did not arrive whole.", problem.Cause(err))
}

// inbound is a client's body. It tells the client's failures from a replica's:
// to the transport that sends it both are a request that broke off.
type inbound struct {
	start *bytes.Buffer
	rest  io.ReadCloser
	whole bool // start holds all of it
	// failed is set while the transport reads and asked when it has returned.
	failed atomic.Pointer[error]
}

// Read reads what was read ahead and then the rest.
func (b *inbound) Read(p []byte) (int, error) {
	if b.start.Len() > 0 || b.whole {
		return b.start.Read(p) //nolint:wrapcheck // io.EOF as it is
	}
	n, err := b.rest.Read(p)
	// A transport that has had its answer closes the body under its reader: that is nobody's failure.
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.failed.CompareAndSwap(nil, &err)
	}
	return n, err //nolint:wrapcheck // the transport looks at it as it is
}

// Close closes the client's body.
func (b *inbound) Close() error {
	return b.rest.Close() //nolint:wrapcheck // as it is
}

// inboundKey finds the body of a request in its context: httputil wraps the body itself.
type inboundKey struct{}

// bodyFailure is the error with which the client's body ended, nil when there was none.
func bodyFailure(ctx context.Context) error {
	if body, ok := ctx.Value(inboundKey{}).(*inbound); ok {
		if err := body.failed.Load(); err != nil {
			return *err
		}
	}
	return nil
}
