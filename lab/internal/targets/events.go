package targets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/events"
)

// Events names the service.
const Events = "events"

var _ = register(Service{
	Name: Events, Image: "rowlock/events", Port: 8085, HistorySchema: "events_meta",
	Engines: []string{PostgreSQL, MySQL}, Worker: "work",
	Try:       `curl -s -X POST URL/events; curl -s -X POST URL/events/async; curl -s URL/events`,
	TryPrints: []string{`{"count":2}`}, Asks: []string{"URL/events"},
}, openEvents)

// adding adds events, every second one for the workers. Other callers may add events meanwhile, so ids between its own
// may be theirs. Still, all must exist and none may be given twice.
type adding struct {
	api    *events.Client
	before int64

	mu  sync.Mutex
	ids map[int64]bool
	err error
}

func openEvents(t Target, options []rowlock.Option) (*adding, error) {
	api, err := events.New(t.URL, options...)
	return &adding{api: api, ids: map[int64]bool{}}, err
}

// add adds an event; every second one is left to the workers.
func (w *adding) add(ctx context.Context, n int) (id int64, err error) {
	if n%2 == 1 {
		return w.api.CreateAsync(ctx)
	}
	e, err := w.api.Create(ctx)
	return e.ID, err
}

const (
	eventsAtOnce = 40
	readsAtOnce  = 8
	// workTimeout is the time that a pending event may wait for its worker.
	workTimeout = 30 * time.Second
)

func (w *adding) check(ctx context.Context) (string, error) {
	ids := make([]int64, eventsAtOnce)
	err := together(eventsAtOnce, func(i int) (err error) {
		if i%2 == 0 {
			ids[i], err = w.add(ctx, i)
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, workTimeout)
		defer cancel()
		e, err := w.api.CreateAndWait(ctx)
		ids[i] = e.ID
		if err != nil {
			return fmt.Errorf("event %d, which is left to a worker: %w", e.ID, err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}

	first, last := slices.Min(ids), slices.Max(ids)
	if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != eventsAtOnce {
		return "", fmt.Errorf("%d events at once got the ids %v, some of them twice", eventsAtOnce, ids)
	}
	if err := w.gapless(ctx, first, last); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d events at once: ids from %d to %d, none twice and none missing; the workers have done theirs",
		eventsAtOnce, first, last), nil
}

// gapless reads every event from first to last.
func (w *adding) gapless(ctx context.Context, first, last int64) error {
	return together(readsAtOnce, func(i int) error {
		for id := first + int64(i); id <= last; id += readsAtOnce {
			_, err := retry(ctx, func(ctx context.Context) (events.Event, error) { return w.api.Get(ctx, id) })
			if err != nil {
				return fmt.Errorf("there is a gap at %d: %w", id, err)
			}
		}
		return nil
	})
}

func (w *adding) prepare(ctx context.Context) (err error) {
	w.before, err = retry(ctx, w.api.Count)
	return err
}

func (w *adding) operate(ctx context.Context, n int) error {
	id, err := w.add(ctx, n)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if id <= w.before || w.ids[id] {
		w.err = errors.Join(w.err, fmt.Errorf("the id %d was given before", id))
	}
	w.ids[id] = true
	return nil
}

func (w *adding) stored(ctx context.Context) (int, error) {
	after, err := retry(ctx, w.api.Count)
	last := slices.Max(append(slices.Collect(maps.Keys(w.ids)), after)) // one that was lost need not be counted
	return len(w.ids), errors.Join(w.err, err, w.gapless(ctx, w.before+1, last))
}

// rows counts the events after the first one, and an id that is missing or given twice against them.
func (w *adding) rows() Rows {
	return Rows{
		Stored: `SELECT count(*) - abs(coalesce(max(id), $1) - $1 - count(*)) FROM events.events WHERE id > $1::bigint`,
		Lock:   `SELECT FROM events.status WHERE id >= $1 FOR UPDATE`,
		Shared: true,
		Args:   []any{w.before},
	}
}
