package targets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/lib/pq"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
)

// Counts names the service.
const Counts = "counts"

var _ = register(Service{
	Name: Counts, Image: "rowlock/count-processing-service", Port: 8083, InternalPath: "/api/v1/internal",
	Engines: []string{PostgreSQL},
	Try: `curl -s -o /dev/null -H 'Content-Type: application/json' -d '{"itemId":"apples"}' URL/api/v1/internal/counts;` +
		` curl -s -X POST URL/api/v1/counts/apples/increase`,
	TryPrints: []string{`{"itemId":"apples","value":1}`, `{"itemId":"apples","value":2}`},
	Asks: []string{
		"--request POST URL/api/v1/counts/page-likes/increase", "'INTERNAL/api/v1/internal/counts?itemIds=page-likes'",
	},
}, openCounts)

// counting increases counters by one.
type counting struct {
	api *counts.Client
	ids []string
}

func openCounts(t Target, options []rowlock.Option) (*counting, error) {
	api, err := counts.New(t.URL, append(options, rowlock.WithInternalURL(t.Internal))...)
	return &counting{api: api}, err
}

// increases is how many are sent at once.
const increases = 100

func (w *counting) check(ctx context.Context) (found string, err error) {
	id := "check-" + rand.Text()
	if _, err := w.api.Create(ctx, id, 0); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.api.Delete(context.WithoutCancel(ctx), id)) }()
	values := make([]int64, increases)
	err = together(increases, func(i int) (err error) {
		values[i], err = w.api.Increase(ctx, id, 1)
		return err
	})
	if err != nil {
		return "", err
	}

	slices.Sort(values)
	for i, value := range values {
		if value != int64(i)+1 {
			return "", fmt.Errorf("%d increases at once were answered %v, want each of 1 to %[1]d once", increases, values)
		}
	}
	if count, err := w.api.Get(ctx, id); err != nil || count.Value != increases {
		return "", errors.Join(fmt.Errorf("after %d increases the count is %d", increases, count.Value), err)
	}
	return fmt.Sprintf("%d increases at once: answered 1 to %[1]d, each once, and the count is %[1]d", increases), nil
}

// counters is over how many the increases of a load are spread.
const counters = 20

func (w *counting) prepare(ctx context.Context) error {
	for range counters {
		id := "drive-" + rand.Text()
		_, err := retry(ctx, func(ctx context.Context) (counts.Count, error) { return w.api.Create(ctx, id, 0) })
		if err != nil && !errors.Is(err, counts.ErrExists) { // which a lost answer has made
			return err
		}
		w.ids = append(w.ids, id)
	}
	return nil
}

func (w *counting) operate(ctx context.Context, n int) error {
	_, err := w.api.Increase(ctx, w.ids[n%counters], 1)
	return err
}

func (w *counting) stored(ctx context.Context) (sum int, err error) {
	found, err := retry(ctx, func(ctx context.Context) ([]counts.Count, error) { return w.api.GetMany(ctx, w.ids...) })
	for _, c := range found {
		sum += int(c.Value)
	}
	return sum, err
}

func (w *counting) rows() Rows {
	return Rows{
		Stored: `SELECT coalesce(sum(current_value), 0) FROM counts.count_values WHERE item_id = ANY($1)`,
		Lock:   `SELECT FROM counts.count_values WHERE item_id = ANY($1) ORDER BY item_id LIMIT 1 FOR UPDATE`,
		Args:   []any{pq.Array(w.ids)},
	}
}
