package targets

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	rowlock "github.com/rowlock/rowlock/client"
)

// Target names a running service.
type Target struct {
	// Service is the service's name.
	Service string
	// URL is the address of its API, such as http://rowlock-counts.
	URL string
	// Internal is that of its internal API, where it has one of its own; URL when empty.
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
}

// open returns the workload of a target. Its client sends each call once, by c.
//
//nolint:ireturn // one of several
func open(t Target, c *http.Client) (workload, error) {
	s, err := Named(t.Service)
	if err != nil {
		return nil, err
	}
	options := Once(c)
	if t.TokenFile != "" {
		options = append(options, rowlock.WithTokenFile(t.TokenFile))
	}
	return s.open(t, options)
}

// retryFor is how long a read is tried again while the service does not answer.
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
	return all.Wait() //nolint:wrapcheck // do's own
}

// isEach reports whether values are first to first+len-1, each once.
func isEach(first int64, values []int64) bool {
	values = slices.Sorted(slices.Values(values))
	for i, v := range values {
		if v != first+int64(i) {
			return false
		}
	}
	return true
}
