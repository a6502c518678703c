package targets

import (
	"context"
	"fmt"

	rowlock "github.com/rowlock/rowlock/client"
)

// Stream is a load whose operations its caller sends one by one, and whose effects it reads from the database. Its
// client repeats what it safely can, so that few operations have an unknown outcome.
type Stream struct{ workload workload }

// Rows holds statements about a load's rows in the service's database. Both have the same parameters.
type Rows struct {
	// Stored selects how many of the load's operations have their effect there.
	Stored string
	// Lock locks a row that the load changes.
	Lock string
	// Shared says that others may add to what is stored.
	Shared bool
	// Args are the parameters.
	Args []any
}

// Prepare makes what the operations of a stream need.
func Prepare(ctx context.Context, t Target) (*Stream, error) {
	w, err := open(t, []rowlock.Option{rowlock.WithHTTPClient(HTTPClient())})
	if err != nil {
		return nil, err
	}
	if err := w.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return &Stream{w}, nil
}

// Operate makes the n-th operation. [Classify] tells what its error means.
func (s *Stream) Operate(ctx context.Context, n int) error { return s.workload.operate(ctx, n) }

// Rows returns statements about the stream's rows.
func (s *Stream) Rows() Rows { return s.workload.rows() }
