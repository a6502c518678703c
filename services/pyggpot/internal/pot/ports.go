package pot

import "context"

// PotsAPI is the inbound port of whoever makes pots and looks into them.
type PotsAPI interface {
	// Create makes an empty pot, or returns ErrExists. The name's form is the
	// contract's business.
	Create(ctx context.Context, name string, maxCoins int32) (Pot, error)
	// View returns a pot, or ErrNotFound.
	View(ctx context.Context, id ID) (Pot, error)
	// ViewByName returns the pot of a name, or ErrNotFound.
	ViewByName(ctx context.Context, name string) (Pot, error)
	// List returns a page of pots and how many there are on all pages, or
	// ErrInvalid. A page beyond the last one is empty.
	List(ctx context.Context, page Page) (pots []Pot, total int64, err error)
}

// CoinsAPI is the inbound port of whoever changes what is in a pot. Its errors are
// ErrNotFound, ErrInvalid, ErrLocked, ErrTimeOver and ErrBusy; after each nothing
// was changed.
type CoinsAPI interface {
	// Add puts coins into a pot and returns them, kinds ascending, each once; or
	// it returns ErrFull.
	Add(ctx context.Context, id ID, coins []Coins) ([]Coins, error)
	// Remove takes coins out of a pot and returns them, kinds ascending, each
	// once, those of which there was none left out: of each kind as many as
	// wanted or all that are there, then count coins of the rest at random, or all.
	Remove(ctx context.Context, id ID, wanted []Coins, count int64) ([]Coins, error)
}

// Repository is the outbound port to the store. What a repository must keep is
// the suite pottest.Exercise.
type Repository interface {
	// Create stores an empty pot, or returns ErrExists.
	Create(ctx context.Context, name string, maxCoins int32) (Pot, error)
	// Find returns a pot, or ErrNotFound.
	Find(ctx context.Context, id ID) (Pot, error)
	// FindByName returns the pot of a name, or ErrNotFound.
	FindByName(ctx context.Context, name string) (Pot, error)
	// List returns up to limit pots after the first offset ones, in the order of
	// their ids, and how many there are, all as of one moment.
	List(ctx context.Context, limit, offset int64) (pots []Pot, total int64, err error)
	// Change gives the pot's contents to change, alone with them, and stores what it
	// returns, all or nothing; a kind that is not in it stays as it is. An error of
	// change is returned as it is and stores nothing. Beyond that it returns
	// ErrNotFound, ErrLocked, ErrTimeOver and ErrBusy.
	//
	// change may be called more than once, of which the last call counts. It must
	// be quick and do nothing outside.
	Change(ctx context.Context, id ID, change func(Pot) (Contents, error)) error
}
