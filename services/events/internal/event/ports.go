package event

import "context"

// Repository is the outbound port of the API. Every implementation passes eventtest.Exercise.
type Repository interface {
	// Add stores a new event under the next id and returns the id once it is committed.
	Add(ctx context.Context, n New) (ID, error)
	// Find returns one event, or ErrNotFound.
	Find(ctx context.Context, id ID) (Event, error)
	// Count returns the number of all events, read from status without a scan.
	Count(ctx context.Context) (int64, error)
}

// New describes an event to add: with a value, or pending.
type New struct {
	Value   string // 1 to MaxValueBytes bytes; ignored when Pending
	Pending bool
}

// Size returns roughly the number of bytes that the event takes on the wire to the database.
func (n New) Size() int {
	const overhead = 32
	return len(n.Value) + overhead
}

// Queue is the outbound port of the workers.
type Queue interface {
	// Work claims up to limit pending events that no other transaction has claimed, calls value for each, and stores
	// the values, all in one transaction. It returns the number of events; 0 when there are none to claim. After an
	// error nothing is stored, unless the error says that the outcome is unknown. When the transaction runs again, value
	// may be called again for the same event.
	Work(ctx context.Context, limit int, value func(ID) string) (int, error)
	// Backlog counts the pending events.
	Backlog(ctx context.Context) (Backlog, error)
}
