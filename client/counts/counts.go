// Package counts calls the counts service: counters that many callers change at
// once. Create, Get, GetMany, Set and Delete belong to its internal API, which
// may have an address of its own: [rowlock.WithInternalURL].
package counts

import (
	"context"
	"errors"
	"net/http"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/call"
	api "github.com/rowlock/rowlock/client/internal/countsapi"
)

//go:generate -command oapi go tool -modfile=../../tools/go.mod oapi-codegen --config=../internal/client.yaml
//go:generate oapi --package=countsapi -o=../internal/countsapi/api.gen.go ../../services/counts/api/openapi.yaml

// Codes of the service.
const (
	ErrNotFound rowlock.Code = "COUNT_NOT_FOUND"
	ErrExists   rowlock.Code = "COUNT_EXISTS"
	ErrOverflow rowlock.Code = "COUNT_OVERFLOW"
)

// Client calls one counts service. It is safe for concurrent use.
type Client struct{ external, internal *api.Client }

// Count holds the state of one counter.
type Count struct {
	ID    string
	Value int64
	// UpdatedAt is the database's time of the last change.
	UpdatedAt time.Time
}

// New returns a client of the service at baseURL, such as "http://rowlock-counts".
// It sends nothing yet.
func New(baseURL string, options ...rowlock.Option) (*Client, error) {
	s := call.Settings(options)
	if s.InternalURL == "" {
		s.InternalURL = baseURL
	}
	shared := []api.ClientOption{api.WithHTTPClient(s.HTTP), api.WithRequestEditorFn(call.Dots)}
	external, err1 := api.NewClient(baseURL, shared...)
	internal, err2 := api.NewClient(s.InternalURL, shared...)
	return &Client{external, internal}, errors.Join(err1, err2)
}

// Increase adds amount, 1 or more, to a counter and returns its new value. It
// returns ErrNotFound when there is no such counter, and ErrOverflow,
// with the value unchanged, when the sum is no int64.
func (c *Client) Increase(ctx context.Context, id string, amount int64) (int64, error) {
	return value(c.external.IncreaseCount(ctx, call.Segment(id), api.Change{Amount: &amount}))
}

// Decrease subtracts amount, 1 or more; otherwise it is like Increase.
func (c *Client) Decrease(ctx context.Context, id string, amount int64) (int64, error) {
	return value(c.external.DecreaseCount(ctx, call.Segment(id), api.Change{Amount: &amount}))
}

// Reset sets a counter to 0. It returns ErrNotFound when there is no such
// counter.
func (c *Client) Reset(ctx context.Context, id string) error {
	_, err := value(c.external.ResetCount(ctx, call.Segment(id)))
	return err
}

// Create makes a counter. It returns ErrExists when there is one.
func (c *Client) Create(ctx context.Context, id string, initial int64) (Count, error) {
	made, err := call.Change[api.Count](c.internal.InitializeCount(ctx, api.NewCount{ItemId: id, InitialValue: &initial}))
	return count(made), err
}

// Get reads a counter. It returns ErrNotFound when there is none.
func (c *Client) Get(ctx context.Context, id string) (Count, error) {
	found, err := call.Read[api.Count](c.internal.GetCount(ctx, call.Segment(id)))
	return count(found), err
}

// GetMany reads 1 to 500 counters in the order of the ids, each once. It leaves
// out those that do not exist.
func (c *Client) GetMany(ctx context.Context, ids ...string) ([]Count, error) {
	found, err := call.Read[[]api.Count](c.internal.ListCounts(ctx, &api.ListCountsParams{ItemIds: ids}))
	counts := make([]Count, len(found))
	for i := range found {
		counts[i] = count(found[i])
	}
	return counts, err
}

// Set gives a counter a value. It returns ErrNotFound when there is none.
func (c *Client) Set(ctx context.Context, id string, value int64) (Count, error) {
	set, err := call.Change[api.Count](c.internal.SetCount(ctx, call.Segment(id), api.CountUpdate{Value: value}))
	return count(set), err
}

// Delete removes a counter. It returns ErrNotFound when there is none.
func (c *Client) Delete(ctx context.Context, id string) error {
	_, err := call.Change[call.None](c.internal.DeleteCount(ctx, call.Segment(id)))
	return err
}

func value(resp *http.Response, err error) (int64, error) {
	changed, err := call.Change[api.Changed](resp, err)
	return changed.Value, err
}

func count(c api.Count) Count { return Count{c.ItemId, c.CurrentValue, c.LastUpdatedAt} }
