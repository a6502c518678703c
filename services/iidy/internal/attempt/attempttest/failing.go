package attempttest

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Failing implements attempt.Repository; each of its methods returns Err.
type Failing struct{ Err error }

var _ attempt.Repository = Failing{}

// Get returns f.Err.
func (f Failing) Get(context.Context, attempt.List, attempt.Item) (int64, error) { return 0, f.Err }

// Exists returns f.Err.
func (f Failing) Exists(context.Context, attempt.List) (bool, error) { return false, f.Err }

// Page returns f.Err.
func (f Failing) Page(context.Context, attempt.List, string, int) ([]attempt.Entry, error) {
	return nil, f.Err
}

// Count returns f.Err.
func (f Failing) Count(context.Context, attempt.List) (c attempt.Counts, err error) { return c, f.Err }

// Apply returns f.Err.
func (f Failing) Apply(context.Context, attempt.Change, attempt.List, attempt.Item, attempt.Claim) (int64, error) {
	return 0, f.Err
}

// ApplyBatch returns f.Err.
func (f Failing) ApplyBatch(
	context.Context, attempt.Change, attempt.List, *attempt.Items, attempt.Claim,
) (int64, error) {
	return 0, f.Err
}

// ApplyStaged returns f.Err.
func (f Failing) ApplyStaged(
	context.Context, attempt.Change, attempt.List, func() (*attempt.Items, error), attempt.Claim,
) (int64, error) {
	return 0, f.Err
}

// Abandon returns f.Err.
func (f Failing) Abandon(context.Context, attempt.List, int64, attempt.Claim) (int64, error) {
	return 0, f.Err
}

// Claim returns f.Err.
func (f Failing) Claim(context.Context, attempt.List, int, time.Duration) (l attempt.Lease, err error) {
	return l, f.Err
}

// Extend returns f.Err.
func (f Failing) Extend(context.Context, attempt.List, attempt.Claim, time.Duration) (int64, error) {
	return 0, f.Err
}

// Release returns f.Err.
func (f Failing) Release(context.Context, attempt.List, attempt.Claim) (int64, error) {
	return 0, f.Err
}
