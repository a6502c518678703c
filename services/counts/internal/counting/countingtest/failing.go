package countingtest

import (
	"context"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Failing is a repository whose methods return Err.
type Failing struct{ Err error }

var _ counting.CountValueRepository = Failing{}

// Change implements counting.CountValueRepository.
func (f Failing) Change(context.Context, counting.Request) (counting.Answer, error) {
	return counting.Answer{}, f.Err
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
