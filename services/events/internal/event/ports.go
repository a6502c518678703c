package event

import "context"

// API is the inbound port of whoever makes and reads events.
type API interface {
	// Create adds an event that has its value already.
	Create(ctx context.Context) (Event, error)
	// Enqueue adds a pending event, for a worker.
	Enqueue(ctx context.Context) (ID, error)
	// Get returns one event, or ErrNotFound.
	Get(ctx context.Context, id ID) (Event, error)
	// Count is the number of all events.
	Count(ctx context.Context) (int64, error)
}

// Repository is the outbound port of the API. What one must keep is the suite
// eventtest.Exercise.
type Repository interface {
	// Add stores a new event under the next id and returns it once it is committed.
	Add(ctx context.Context, n New) (ID, error)
	// Find returns one event, or ErrNotFound.
	Find(ctx context.Context, id ID) (Event, error)
	// Count is the number of all events, read from status without a scan.
	Count(ctx context.Context) (int64, error)
}

// New is an event that is to be: with a value, or pending.
type New struct {
	Value   string // 1 to MaxValueBytes bytes; ignored when Pending
	Pending bool
}

// Queue is the outbound port of the workers.
type Queue interface {
	// Work claims up to limit pending events that nobody else has claimed, asks
	// value for each, and stores the values, all in one transaction: an error
	// means that nothing was stored, unless it says that the outcome is unknown.
	// It returns how many it worked; 0 when there is nothing to claim. value may
	// be asked again for the same event when the transaction is run again.
	Work(ctx context.Context, limit int, value func(ID) string) (int, error)
	// Backlog looks at what is pending.
	Backlog(ctx context.Context) (Backlog, error)
}
