// Package counts calls the counts service: counters that many callers change at
// once. Create, Get, GetMany, List, All, Set and Delete belong to its internal
// API, which may have a separate address: [rowlock.WithInternalURL].
package counts

import (
	"context"
	"errors"
	"iter"
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
	// ErrKeyConflict means that the key was used for another request.
	ErrKeyConflict rowlock.Code = "IDEMPOTENCY_KEY_CONFLICT"
	// ErrNotSupported says that the service runs on Citus, where it takes no keys, no batches and no CreateMissing.
	ErrNotSupported rowlock.Code = "NOT_SUPPORTED"
)

// Client calls one counts service. It is safe for concurrent use.
type Client struct {
	external, internal *api.Client
	// keys says that each change except Create and Delete gets a generated key unless it has one.
	keys bool
}

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
	shared := []api.ClientOption{api.WithHTTPClient(call.Doer{Settings: s}), api.WithRequestEditorFn(call.Dots)}
	external, err1 := api.NewClient(baseURL, shared...)
	internal, err2 := api.NewClient(s.InternalURL, shared...)
	return &Client{external, internal, !s.WithoutRetries && !s.WithoutKeys}, errors.Join(err1, err2)
}

// Increase adds amount, 1 or more, to a counter and returns its new value. It
// returns ErrNotFound if there is no such counter, and ErrOverflow, with the
// value unchanged, if the sum does not fit into an int64.
func (c *Client) Increase(ctx context.Context, id string, amount int64, options ...Option) (int64, error) {
	how := c.collect(options)
	params := api.IncreaseCountParams{IdempotencyKey: how.key}
	resp, err := c.external.IncreaseCount(ctx, call.Segment(id), &params, api.Change{Amount: &amount})
	return value(how, resp, err)
}

// Decrease subtracts amount, 1 or more; otherwise it is like Increase.
func (c *Client) Decrease(ctx context.Context, id string, amount int64, options ...Option) (int64, error) {
	how := c.collect(options)
	params := api.DecreaseCountParams{IdempotencyKey: how.key}
	resp, err := c.external.DecreaseCount(ctx, call.Segment(id), &params, api.Change{Amount: &amount})
	return value(how, resp, err)
}

// Reset sets a counter to 0. It returns ErrNotFound if there is no such counter.
func (c *Client) Reset(ctx context.Context, id string, options ...Option) error {
	how := c.collect(options)
	params := api.ResetCountParams{IdempotencyKey: how.key}
	resp, err := c.external.ResetCount(ctx, call.Segment(id), &params)
	_, err = value(how, resp, err)
	return err
}

// Change adds Amount to a counter. It may be negative, but neither 0 nor the smallest int64.
type Change struct {
	ID     string
	Amount int64
}

// Apply applies 1 to 1,000 changes, all or none, and returns the values after
// each change, in the same order. It returns ErrNotFound if there is no such
// counter, unless the options include CreateMissing, and ErrOverflow like
// Increase. The error's Field names the change, as "changes[3].itemId".
func (c *Client) Apply(ctx context.Context, changes []Change, options ...Option) ([]int64, error) {
	how := c.collect(options)
	params := api.ChangeCountsParams{IdempotencyKey: how.key}
	if how.create {
		params.Create = &how.create
	}

	body := api.Changes{Changes: make([]api.ItemChange, len(changes))}
	for i, change := range changes {
		body.Changes[i] = api.ItemChange{ItemId: change.ID, Amount: change.Amount}
	}

	changed, header, err := call.AnswerWithHeader[api.ChangedCounts](c.external.ChangeCounts(ctx, &params, body))
	how.report(header)
	values := make([]int64, len(changed.Values))
	for i := range values {
		values[i] = changed.Values[i].Value
	}
	return values, err
}

// Create makes a counter. It returns ErrExists if there is one.
func (c *Client) Create(ctx context.Context, id string, initial int64) (Count, error) {
	made, err := call.Answer[api.Count](c.internal.InitializeCount(
		ctx, &api.InitializeCountParams{}, api.NewCount{ItemId: id, InitialValue: &initial}))
	return count(made), err
}

// Get reads a counter. It returns ErrNotFound if there is none.
func (c *Client) Get(ctx context.Context, id string) (Count, error) {
	found, err := call.Answer[api.Count](c.internal.GetCount(ctx, call.Segment(id)))
	return count(found), err
}

// GetMany reads 1 to 500 counters, in the order of the ids, each once. It omits
// those that do not exist.
func (c *Client) GetMany(ctx context.Context, ids ...string) ([]Count, error) {
	found, err := call.Answer[[]api.Count](c.internal.ListCounts(ctx, &api.ListCountsParams{ItemIds: &ids}))
	return counts(found), err
}

// List reads a page of at most limit counters, 1 to 1,000, whose ids begin with
// prefix, in byte order. after is empty for the first page, and then the previous
// page's next. next is empty on the last page.
func (c *Client) List(
	ctx context.Context, prefix string, limit int, after string,
) (page []Count, next string, err error) {
	params := api.ListCountsParams{Prefix: &prefix, Limit: &limit, After: &after}
	found, header, err := call.AnswerWithHeader[[]api.Count](c.internal.ListCounts(ctx, &params))
	if err == nil && header.Get("Link") != "" {
		next = found[len(found)-1].ItemId
	}
	return counts(found), next, err
}

// All yields every counter whose id begins with prefix, in byte order. It reads
// page after page, and ends after an error, which it yields.
func (c *Client) All(ctx context.Context, prefix string) iter.Seq2[Count, error] {
	return func(yield func(Count, error) bool) {
		const limit = 1000
		for after := ""; ; {
			page, next, err := c.List(ctx, prefix, limit, after)
			if err != nil {
				yield(Count{}, err)
				return
			}
			for _, found := range page {
				if !yield(found, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			after = next
		}
	}
}

// Set sets a counter's value. It returns ErrNotFound if there is none.
func (c *Client) Set(ctx context.Context, id string, value int64, options ...Option) (Count, error) {
	how := c.collect(options)
	set, header, err := call.AnswerWithHeader[api.Count](c.internal.SetCount(
		ctx, call.Segment(id), &api.SetCountParams{IdempotencyKey: how.key}, api.CountUpdate{Value: value}))
	how.report(header)
	return count(set), err
}

// Delete removes a counter. It returns ErrNotFound if there is none.
func (c *Client) Delete(ctx context.Context, id string) error {
	_, err := call.Answer[call.None](c.internal.DeleteCount(ctx, call.Segment(id), &api.DeleteCountParams{}))
	return err
}

func value(how settings, resp *http.Response, err error) (int64, error) {
	changed, header, err := call.AnswerWithHeader[api.Changed](resp, err)
	how.report(header)
	return changed.Value, err
}

func counts(found []api.Count) []Count {
	list := make([]Count, len(found))
	for i := range found {
		list[i] = count(found[i])
	}
	return list
}

func count(c api.Count) Count { return Count{c.ItemId, c.CurrentValue, c.LastUpdatedAt} }
