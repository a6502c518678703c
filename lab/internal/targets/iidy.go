package targets

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/iidy"
)

// Iidy names the service.
const Iidy = "iidy"

var _ = register(Service{
	Name: Iidy, Image: "rowlock/iidy", Port: 8084, Engines: []string{PostgreSQL},
	Try: `printf 'a.txt\nb.txt\n' | curl -s URL/iidy/v1/batch/lists/downloads --data-binary @-;` +
		` curl -s "URL/iidy/v1/batch/lists/downloads?count=10"`,
	TryPrints: []string{"ADDED 2\na.txt 0\nb.txt 0\n", "ADDED 0\na.txt 0\nb.txt 0\n"},
	Asks:      []string{"URL/iidy/v1/lists/downloads"},
}, openIidy)

// listing adds items to a list, and counts failed attempts of them.
type listing struct {
	api   *iidy.Client
	name  string
	list  *iidy.List
	items []string
}

func openIidy(t Target, options []rowlock.Option) (*listing, error) {
	api, err := iidy.New(t.URL, options...)
	return &listing{api: api}, err
}

// itemsAtOnce are shared by claimers, which take claimSize at a time.
const (
	itemsAtOnce = 200
	claimers    = 8
	claimSize   = 7
	claimLease  = time.Minute
)

func (w *listing) check(ctx context.Context) (string, error) {
	list := w.api.List("check-" + rand.Text())
	items := make([]string, itemsAtOnce)
	for i := range items {
		items[i] = fmt.Sprintf("item-%03d", i)
	}

	// Twice at once: what is in the list is not added again.
	var added [2]int64
	err := together(len(added), func(i int) (err error) {
		added[i], err = list.Add(ctx, items...)
		return err
	})
	if err != nil {
		return "", err
	}

	if added[0]+added[1] != itemsAtOnce {
		return "", fmt.Errorf("two batches of the same %d items added %d", itemsAtOnce, added)
	}
	claimed, err := claimAll(ctx, list)
	if err != nil {
		return "", err
	}

	for item, times := range claimed {
		if times != 1 {
			return "", fmt.Errorf("%s was claimed %d times", item, times)
		}
	}

	deleted, err := list.Delete(ctx, items...)
	if err == nil && (len(claimed) != itemsAtOnce || deleted != itemsAtOnce) {
		err = fmt.Errorf("%d of %d items were claimed, and %d deleted at the end", len(claimed), itemsAtOnce, deleted)
	}
	return fmt.Sprintf("%d items, %d claimers at once: each item claimed once", itemsAtOnce, claimers), err
}

// claimAll claims by several workers at once until nothing is free, and returns
// how often each item was claimed.
func claimAll(ctx context.Context, list *iidy.List) (map[string]int, error) {
	var mu sync.Mutex
	claimed := map[string]int{}
	err := together(claimers, func(int) error {
		for task, err := range list.Work(ctx, claimSize, claimLease) {
			if err != nil {
				return err
			}
			mu.Lock()
			claimed[task.Item]++
			mu.Unlock()
		}
		return nil
	})
	return claimed, err
}

// tried is how many items the attempts of a load are spread over.
const tried = 20

func (w *listing) prepare(ctx context.Context) error {
	w.name = "drive-" + rand.Text()
	w.list = w.api.List(w.name)
	for i := range tried {
		w.items = append(w.items, fmt.Sprintf("item-%02d", i))
	}
	_, err := retry(ctx, func(ctx context.Context) (int64, error) { return w.list.Add(ctx, w.items...) })
	return err
}

func (w *listing) operate(ctx context.Context, n int) error {
	_, err := w.list.Increment(ctx, w.items[n%tried])
	return err
}

func (w *listing) stored(ctx context.Context) (sum int, err error) {
	found, err := retry(ctx, func(ctx context.Context) ([]iidy.Entry, error) { return w.list.Page(ctx, "", tried) })
	for _, entry := range found {
		sum += int(entry.Attempts)
	}
	return sum, err
}

func (w *listing) rows() Rows {
	return Rows{
		Stored: `SELECT coalesce(sum(attempts), 0) FROM iidy.lists WHERE list = $1`,
		Lock:   `SELECT FROM iidy.lists WHERE list = $1 ORDER BY item LIMIT 1 FOR UPDATE`,
		Args:   []any{w.name},
	}
}
