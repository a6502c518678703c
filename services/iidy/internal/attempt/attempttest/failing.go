package attempttest

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Failing is a repository whose every method fails with Err.
type Failing struct{ Err error }

var _ attempt.Repository = Failing{}

// Get implements attempt.Repository.
func (f Failing) Get(context.Context, attempt.List, attempt.Item) (int64, error) { return 0, f.Err }

// Exists implements attempt.Repository.
func (f Failing) Exists(context.Context, attempt.List) (bool, error) { return false, f.Err }

// One implements attempt.Repository.
func (f Failing) One(context.Context, attempt.Change, attempt.List, attempt.Item, attempt.Claim) (int64, error) {
	return 0, f.Err
}

// Many implements attempt.Repository.
func (f Failing) Many(context.Context, attempt.Change, attempt.List, *attempt.Items, attempt.Claim) (int64, error) {
	return 0, f.Err
}

// Stage implements attempt.Repository.
func (f Failing) Stage(
	context.Context, attempt.Change, attempt.List, func() (*attempt.Items, error), attempt.Claim,
) (int64, error) {
	return 0, f.Err
}

// Page implements attempt.Repository.
func (f Failing) Page(context.Context, attempt.List, string, int) ([]attempt.Entry, error) {
	return nil, f.Err
}

// Progress implements attempt.Repository.
func (f Failing) Progress(context.Context, attempt.List) (attempt.Progress, error) {
	return attempt.Progress{}, f.Err
}

// Claim implements attempt.Repository.
func (f Failing) Claim(context.Context, attempt.List, int, time.Duration) (attempt.Lease, error) {
	return attempt.Lease{}, f.Err
}

// Extend implements attempt.Repository.
func (f Failing) Extend(context.Context, attempt.List, attempt.Claim, time.Duration) (int64, error) {
	return 0, f.Err
}

// Release implements attempt.Repository.
func (f Failing) Release(context.Context, attempt.List, attempt.Claim) (int64, error) {
	return 0, f.Err
}

// Abandon implements attempt.Repository.
func (f Failing) Abandon(context.Context, attempt.List, int64, attempt.Claim) (int64, error) {
	return 0, f.Err
}
