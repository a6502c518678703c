// Package events calls the events service: events with gapless ids, in the order
// of their commits.
package events

import (
	"context"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/call"
	api "github.com/rowlock/rowlock/client/internal/eventsapi"
)

//go:generate -command oapi go tool -modfile=../../tools/go.mod oapi-codegen --config=../internal/client.yaml
//go:generate oapi --package=eventsapi -o=../internal/eventsapi/api.gen.go ../../services/events/api/openapi.yaml

// ErrNotFound reports that there is no such event.
const ErrNotFound rowlock.Code = "EVENT_NOT_FOUND"

// Client calls one events service. It is safe for concurrent use.
type Client struct{ api *api.Client }

// New returns a client of the service at baseURL, such as "http://rowlock-events".
// It sends nothing yet.
func New(baseURL string, options ...rowlock.Option) (*Client, error) {
	c, err := api.NewClient(baseURL, api.WithHTTPClient(call.Settings(options).HTTP))
	return &Client{c}, err
}

// Event holds an event.
type Event struct {
	ID int64
	// Value is empty while the event is pending.
	Value string
}

// Pending reports whether no worker has given the event its value yet.
func (e Event) Pending() bool { return e.Value == "" }

// Create adds an event that has its value already.
func (c *Client) Create(ctx context.Context) (Event, error) {
	made, err := call.Change[api.CreatedEvent](c.api.CreateEvent(ctx))
	return Event{made.Id, made.Value}, err
}

// CreateAsync adds a pending event for a worker and returns its id.
func (c *Client) CreateAsync(ctx context.Context) (id int64, err error) {
	made, err := call.Change[api.EnqueuedEvent](c.api.EnqueueEvent(ctx))
	return made.Id, err
}

// Get reads an event. It returns ErrNotFound when there is none.
func (c *Client) Get(ctx context.Context, id int64) (Event, error) {
	found, err := call.Read[api.Event](c.api.GetEvent(ctx, id))
	return Event{found.Id, call.Value(found.Value)}, err
}

// Count returns the number of all events, pending ones included.
func (c *Client) Count(ctx context.Context) (int64, error) {
	found, err := call.Read[api.Count](c.api.CountEvents(ctx))
	return found.Count, err
}
