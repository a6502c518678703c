package pot

import "context"

// Repository is the outbound port to the store. Every implementation passes pottest.Exercise.
type Repository interface {
	// Create stores an empty pot, or returns ErrExists.
	Create(ctx context.Context, name string, maxCoins int32) (Pot, error)
	// Find returns a pot, or ErrNotFound.
	Find(ctx context.Context, id ID) (Pot, error)
	// FindByName returns the pot with the name, or ErrNotFound.
	FindByName(ctx context.Context, name string) (Pot, error)
	// List returns up to limit pots after the first offset ones, in the order of their ids, and the number of all pots,
	// from one snapshot. If offset is that number or more, it only counts.
	List(ctx context.Context, limit, offset int64) (pots []Pot, total int64, err error)
	// Change makes a change, by Pot.Apply, on the contents after the previous change, and returns the moved coins. It
	// stores all of the change or nothing, and nothing if it returns ErrFull, ErrNotFound, ErrLocked or ErrTimeOver.
	Change(ctx context.Context, c Change) (Contents, error)
}
