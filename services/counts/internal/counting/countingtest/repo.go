package countingtest

import (
	"context"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Repo adds a method for each change to a repository, for the tests.
type Repo struct{ counting.CountValueRepository }

// Create stores a new count.
func (r Repo) Create(ctx context.Context, id counting.ItemID, initial int64) (counting.CountValue, error) {
	v, _, err := r.CreateOnce(ctx, counting.Key{}, id, initial)
	return v, err
}

// CreateOnce stores a new count under a key.
func (r Repo) CreateOnce(
	ctx context.Context, key counting.Key, id counting.ItemID, initial int64,
) (v counting.CountValue, replayed bool, err error) {
	return r.one(ctx, counting.Create, key, counting.Change{ItemID: id, Delta: initial})
}

// Set sets a count.
func (r Repo) Set(
	ctx context.Context, key counting.Key, id counting.ItemID, value int64,
) (v counting.CountValue, replayed bool, err error) {
	return r.one(ctx, counting.Set, key, counting.Change{ItemID: id, Delta: value})
}

// Delete deletes a count.
func (r Repo) Delete(ctx context.Context, id counting.ItemID) error {
	_, err := r.DeleteOnce(ctx, counting.Key{}, id)
	return err
}

// DeleteOnce deletes a count under a key.
func (r Repo) DeleteOnce(ctx context.Context, key counting.Key, id counting.ItemID) (replayed bool, err error) {
	_, replayed, err = r.one(ctx, counting.Delete, key, counting.Change{ItemID: id})
	return replayed, err
}

func (r Repo) one(
	ctx context.Context, operation counting.Operation, key counting.Key, c counting.Change,
) (counting.CountValue, bool, error) {
	request := counting.Request{Operation: operation, Key: key, Changes: []counting.Change{c}}
	a, err := r.Change(ctx, request)
	return a.Count(c.ItemID), a.Replayed, err
}
