// Package iidy calls the iidy service: lists of items with their numbers of failed
// attempts, which workers share by claims.
package iidy

import (
	"context"
	"net/http"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/call"
	api "github.com/rowlock/rowlock/client/internal/iidyapi"
)

//go:generate -command oapi go tool -modfile=../../tools/go.mod oapi-codegen --config=../internal/client.yaml
//go:generate oapi --package=iidyapi -o=../internal/iidyapi/api.gen.go ../../services/iidy/api/openapi.yaml

// Codes of the service.
const (
	ErrItemNotFound rowlock.Code = "ITEM_NOT_FOUND"
	ErrItemTooLong  rowlock.Code = "ITEM_TOO_LONG"
	ErrListNotFound rowlock.Code = "LIST_NOT_FOUND"
)

// Client calls one iidy service. It is safe for concurrent use.
type Client struct{ api *api.Client }

// New returns a client of the service at baseURL, such as "http://rowlock-iidy".
// It sends nothing yet.
func New(baseURL string, options ...rowlock.Option) (*Client, error) {
	c, err := api.NewClient(baseURL, api.WithHTTPClient(call.Doer{Settings: call.Settings(options)}),
		api.WithRequestEditorFn(call.Dots), api.WithRequestEditorFn(acceptJSON))
	return &Client{c}, err
}

func acceptJSON(_ context.Context, req *http.Request) error {
	req.Header.Set("Accept", "application/json")
	return nil
}

// List returns the list with that name, which may still be empty. It sends nothing.
func (c *Client) List(name string) *List { return &List{c.api, call.Segment(name)} }

// List holds items in byte order. A list exists as long as it has an item.
type List struct {
	api  *api.Client
	name string
}

// Entry is an item with its number of failed attempts.
type Entry struct {
	Item     string
	Attempts int64
}

// Add adds items, all or none, and returns how many were new; the others keep their
// attempts. Here and below, a single item is sent in a separate kind of request,
// which shares a commit with others.
func (l *List) Add(ctx context.Context, items ...string) (int64, error) {
	if len(items) == 1 {
		return added(l.api.AddItem(ctx, l.name, call.Segment(items[0]), &api.AddItemParams{}))
	}
	return added(l.api.ChangeItems(ctx, l.name, &api.ChangeItemsParams{}, api.Items{Items: items}))
}

// Increment counts a failed attempt for each item, all or none, and returns how
// many of the items are in the list.
func (l *List) Increment(ctx context.Context, items ...string) (int64, error) {
	if len(items) == 1 {
		return incremented(l.api.IncrementItem(ctx, l.name, call.Segment(items[0]), &api.IncrementItemParams{}))
	}
	return incremented(l.api.IncrementItems(ctx, l.name, &api.IncrementItemsParams{}, api.Items{Items: items}))
}

// Delete deletes items, all or none, and returns how many were in the list.
func (l *List) Delete(ctx context.Context, items ...string) (int64, error) {
	if len(items) == 1 {
		return deleted(l.api.DeleteItem(ctx, l.name, call.Segment(items[0]), &api.DeleteItemParams{}))
	}
	return deleted(l.api.DeleteItems(ctx, l.name, &api.DeleteItemsParams{}, api.Items{Items: items}))
}

// DeleteAttempted deletes the items with at least this many failed attempts, and
// returns their number.
func (l *List) DeleteAttempted(ctx context.Context, attempts int64) (int64, error) {
	params := api.DeleteItemsParams{MinAttempts: &attempts}
	return deleted(l.api.DeleteItemsWithTextBody(ctx, l.name, &params, ""))
}

// Attempts returns an item's number of failed attempts. It returns ErrItemNotFound
// if the item is not in the list.
func (l *List) Attempts(ctx context.Context, item string) (int64, error) {
	entry, err := call.Answer[api.Attempts](l.api.GetItem(ctx, l.name, call.Segment(item)))
	return entry.Attempts, err
}

// Page reads up to count entries, at most 10,000, that follow after in byte order.
// after need not be an item; "" comes before all items.
func (l *List) Page(ctx context.Context, after string, count int) ([]Entry, error) {
	params := api.ListItemsParams{Count: count}
	if after != "" {
		params.AfterId = &after
	}
	page, err := call.Answer[api.Entries](l.api.ListItems(ctx, l.name, &params))
	return entries(page.Listentries), err
}

// Counts holds the numbers of a list's items by state.
type Counts struct {
	Items, Claimed int64
	// Attempts is the number of items that failed 0, 1, 2, 3, 4, and 5 or more times.
	Attempts [6]int64
}

// Count counts the items of the list by state. The service reads every item.
func (l *List) Count(ctx context.Context) (Counts, error) {
	c, err := call.Answer[api.ItemCounts](l.api.CountItems(ctx, l.name))
	a := c.Attempts
	return Counts{c.Items, c.Claimed, [6]int64{a.N0, a.N1, a.N2, a.N3, a.N4, a.N5}}, err
}

// Claim holds what a worker has claimed. ID is empty if nothing was free.
type Claim struct {
	ID string
	// Until is the end of the lease by the database's clock.
	Until   time.Time
	Entries []Entry
}

func added(resp *http.Response, err error) (int64, error) {
	a, err := call.Answer[api.Added](resp, err)
	return a.Added, err
}

func incremented(resp *http.Response, err error) (int64, error) {
	a, err := call.Answer[api.Incremented](resp, err)
	return a.Incremented, err
}

func deleted(resp *http.Response, err error) (int64, error) {
	a, err := call.Answer[api.Deleted](resp, err)
	return a.Deleted, err
}

func entries(found []api.Entry) []Entry {
	list := make([]Entry, len(found))
	for i, e := range found {
		list[i] = Entry{e.Item, e.Attempts}
	}
	return list
}
