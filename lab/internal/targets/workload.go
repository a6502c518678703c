package targets

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/payments"
)

// Target names a running service.
type Target struct {
	// Service is the service's name.
	Service string
	// URL is the address of its API, such as http://rowlock-counts.
	URL string
	// Internal is the address of its internal API; URL when empty.
	Internal string
	// TokenFile is the file with the token to call by; empty for none.
	TokenFile string
}

// workload holds the operations on one service.
type workload interface {
	// check sends operations at once, compares their results with what the service
	// promises, and describes what it found.
	check(ctx context.Context) (string, error)
	// prepare makes what the operations of a load need.
	prepare(ctx context.Context) error
	// operate makes the n-th operation of a load.
	operate(ctx context.Context, n int) error
	// stored returns how many of the load's operations the service holds.
	stored(ctx context.Context) (int, error)
	// rows returns statements about the load's rows.
	rows() Rows
}

// open returns the workload of a target, whose client has the options.
func open(t Target, options []rowlock.Option) (workload, error) {
	s, err := Named(t.Service)
	if err != nil {
		return nil, err
	}
	if t.TokenFile != "" {
		options = append(options, rowlock.WithTokenFile(t.TokenFile))
	}
	return s.open(t, options)
}

// retryFor is the time for which a read is tried again while the service does not answer.
const retryFor = 10 * time.Second

// retry repeats a read until it succeeds, the service refuses it, or retryFor has passed.
func retry[T any](ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	for deadline := time.Now().Add(retryFor); ; {
		value, err := read(ctx)
		if outcome, _ := Classify(err); outcome == OK || outcome == Refused || time.Now().After(deadline) {
			return value, err
		}
		select {
		case <-time.After(redialWait):
		case <-ctx.Done():
			return value, errors.Join(err, ctx.Err())
		}
	}
}

// together calls do(0) to do(n-1) at once and returns the first error.
func together(n int, do func(i int) error) error {
	var all errgroup.Group
	for i := range n {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}

const (
	// answerTimeout is longer than REQUEST_TIMEOUT, so that the service itself says what was wrong.
	answerTimeout = 18 * time.Second
	// idleTimeout is shorter than the five seconds after which a server closes an idle connection.
	idleTimeout = 2 * time.Second
	idlePerHost = 1024 // more than window hostile has callers
)

// HTTPClient returns a client for many goroutines that keeps connections and sends each request once: Go's own
// transport repeats one that has an Idempotency-Key when its answer is lost. answerTimeout bounds a request.
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

	// redialFor is the time for which a refused connection is tried again; a refused one carried nothing.
	redialFor time.Duration
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
			return resp, err
		}
		select {
		case <-time.After(redialWait):
		case <-req.Context().Done():
			return nil, err
		}
	}
}

// refused reports whether no connection was made.
func refused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Outcome says what a client knows of an operation that has returned.
type Outcome uint8

// The outcomes.
const (
	// OK: applied, with the result that the client was given.
	OK Outcome = iota
	// Refused: not applied, and a repeat is refused too (a conflict, a missing thing).
	Refused
	// NotApplied: surely not applied, and safe to repeat.
	NotApplied
	// Unknown: applied or not; the answer was lost.
	Unknown
)

// String returns the outcome's name in reports.
func (o Outcome) String() string {
	return [...]string{"ok", "refused", "not applied", "unknown"}[o]
}

// Classify returns the outcome of an operation whose client returned err, and the
// error's code, which is empty for OK. A read has no outcome Unknown: when its
// answer is lost, nothing was applied. A payment whose key is held by another
// request is NotApplied by this one.
func Classify(err error) (outcome Outcome, code string) {
	if err == nil {
		return OK, ""
	}
	if e, ok := errors.AsType[*rowlock.Error](err); ok {
		code = string(e.Code)
	}
	switch {
	case rowlock.NotApplied(err), errors.Is(err, payments.ErrProcessing):
		return NotApplied, code
	case rowlock.OutcomeUnknown(err), code == "":
		return Unknown, code
	default:
		return Refused, code
	}
}

// reason returns the code of an error and, where there was no answer, what
// happened, without addresses, so that equal ones count together.
func reason(err error) string {
	_, code := Classify(err)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return code + ": " + op.Op + ": " + op.Err.Error()
	}
	if cause := errors.Unwrap(err); cause != nil && errors.Is(err, rowlock.ErrAnswerLost) {
		for next := cause; next != nil; next = errors.Unwrap(next) {
			cause = next
		}
		return code + ": " + cause.Error()
	}
	return code
}
