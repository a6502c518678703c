package pot

import "context"

// PotsAPI is the inbound port that creates and reads pots.
type PotsAPI interface {
	// Create creates an empty pot, or returns ErrExists. The contract checks the form of the name.
	Create(ctx context.Context, name string, maxCoins int32) (Pot, error)
	// View returns a pot, or ErrNotFound.
	View(ctx context.Context, id ID) (Pot, error)
	// ViewByName returns the pot with the name, or ErrNotFound.
	ViewByName(ctx context.Context, name string) (Pot, error)
	// List returns a page of pots and the number of all pots. A page after the last one is empty. A page that has pots and
	// begins after more than MaxOffset others returns ErrOutOfRange.
	List(ctx context.Context, page Page) (pots []Pot, total int64, err error)
}

// CoinsAPI is the inbound port that changes the coins of a pot. Its errors are ErrNotFound, ErrLocked and ErrTimeOver;
// after each of them nothing was changed.
type CoinsAPI interface {
	// Add adds coins to a pot and returns them, kinds ascending, each once; or it returns ErrFull.
	Add(ctx context.Context, id ID, coins []Coins) ([]Coins, error)
	// Remove removes coins from a pot: of each kind the wanted number or all that the pot has, then count of the others at
	// random or all. It returns the removed coins, kinds ascending, each once.
	Remove(ctx context.Context, id ID, wanted []Coins, count int64) ([]Coins, error)
}

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
