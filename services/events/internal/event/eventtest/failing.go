package eventtest

import (
	"context"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Failing implements Store. Every method returns Err.
type Failing struct{ Err error }

var _ Store = Failing{}

// Add implements event.Repository.
func (f Failing) Add(context.Context, event.New) (event.ID, error) { return 0, f.Err }

// Find implements event.Repository.
func (f Failing) Find(context.Context, event.ID) (event.Event, error) { return event.Event{}, f.Err }

// Count implements event.Repository.
func (f Failing) Count(context.Context) (int64, error) { return 0, f.Err }

// Work implements event.Queue.
func (f Failing) Work(context.Context, int, func(event.ID) string) (int, error) { return 0, f.Err }

// Backlog implements event.Queue.
func (f Failing) Backlog(context.Context) (event.Backlog, error) { return event.Backlog{}, f.Err }
