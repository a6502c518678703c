// Package events calls the events service: events with gapless ids, in commit
// order.
package events

import (
	"context"
	"errors"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/call"
	api "github.com/rowlock/rowlock/client/internal/eventsapi"
)

//go:generate -command oapi go tool -modfile=../../tools/go.mod oapi-codegen --config=../internal/client.yaml
//go:generate oapi --package=eventsapi -o=../internal/eventsapi/api.gen.go ../../services/events/api/openapi.yaml

// ErrNotFound means that there is no such event.
const ErrNotFound rowlock.Code = "EVENT_NOT_FOUND"

// ErrPending means that no worker has given the event a value in time.
const ErrPending rowlock.Code = "EVENT_PENDING"

// Client calls one events service. It is safe for concurrent use.
type Client struct{ api *api.Client }

// New returns a client of the service at baseURL, such as "http://rowlock-events".
// It sends nothing yet.
func New(baseURL string, options ...rowlock.Option) (*Client, error) {
	c, err := api.NewClient(baseURL, api.WithHTTPClient(call.Doer{Settings: call.Settings(options)}))
	return &Client{c}, err
}

// Event holds an event.
type Event struct {
	ID int64
	// Value is empty while the event is pending.
	Value string
}

// Pending reports whether the event still waits for its value from a worker.
func (e Event) Pending() bool { return e.Value == "" }

// Create adds an event that already has its value.
func (c *Client) Create(ctx context.Context) (Event, error) {
	made, err := call.Answer[api.CreatedEvent](c.api.CreateEvent(ctx))
	return Event{made.Id, made.Value}, err
}

// CreateAsync adds a pending event for a worker and returns its id.
func (c *Client) CreateAsync(ctx context.Context) (id int64, err error) {
	made, err := call.Answer[api.EnqueuedEvent](c.api.EnqueueEvent(ctx))
	return made.Id, err
}

// Get reads an event. It returns ErrNotFound if there is none.
func (c *Client) Get(ctx context.Context, id int64) (Event, error) {
	found, err := call.Answer[api.Event](c.api.GetEvent(ctx, id))
	return Event{found.Id, call.Value(found.Value)}, err
}

// CreateAndWait adds a pending event and waits until a worker has given it a value.
// If ctx ends first, the error is ErrPending, and a later Get finds the value.
// CreateAndWait returns the event's id with every error, unless the event was not
// added.
func (c *Client) CreateAndWait(ctx context.Context) (Event, error) {
	const first, longest = 50 * time.Millisecond, 2 * time.Second
	id, err := c.CreateAsync(ctx)
	if err != nil {
		return Event{}, err
	}

	for attempt := 1; ; attempt++ {
		waited := call.Sleep(ctx, call.Pause(attempt, first, longest))
		if !waited {
			err = errors.Join(context.Cause(ctx), err)
			return Event{ID: id}, &rowlock.Error{Code: ErrPending, Detail: "The event has no value yet.", Read: true, Err: err}
		}

		var event Event
		event, err = c.Get(ctx, id)
		if err == nil && !event.Pending() {
			return event, nil
		}
		if err != nil && !rowlock.NotApplied(err) {
			return Event{ID: id}, err
		}
	}
}

// Count returns the number of all events, including pending ones.
func (c *Client) Count(ctx context.Context) (int64, error) {
	found, err := call.Answer[api.Count](c.api.CountEvents(ctx))
	return found.Count, err
}
