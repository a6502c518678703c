package countingtest

import (
	"context"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Failing is a repository whose methods return Err.
type Failing struct{ Err error }

var _ counting.CountValueRepository = Failing{}

// Create implements counting.CountValueRepository.
func (f Failing) Create(context.Context, counting.ItemID, int64) (counting.CountValue, error) {
	return counting.CountValue{}, f.Err
}

// Find implements counting.CountValueRepository.
func (f Failing) Find(context.Context, counting.ItemID) (counting.CountValue, error) {
	return counting.CountValue{}, f.Err
}

// FindMany implements counting.CountValueRepository.
func (f Failing) FindMany(context.Context, []counting.ItemID) ([]counting.CountValue, error) {
	return nil, f.Err
}

// Page implements counting.CountValueRepository.
func (f Failing) Page(context.Context, string, string, int) ([]counting.CountValue, error) {
	return nil, f.Err
}

// Apply implements counting.CountValueRepository.
func (f Failing) Apply(context.Context, counting.Update) (counting.Result, error) {
	return counting.Result{}, f.Err
}

// Set implements counting.CountValueRepository.
func (f Failing) Set(context.Context, counting.Key, counting.ItemID, int64) (counting.CountValue, bool, error) {
	return counting.CountValue{}, false, f.Err
}

// Delete implements counting.CountValueRepository.
func (f Failing) Delete(context.Context, counting.ItemID) error { return f.Err }
