package drive

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"
)

// readersAtOnce look for gaps.
const readersAtOnce = 8

// events makes events. Others may do so too meanwhile, so the ids in between may be theirs; that all are there, and that none is given
// twice, holds all the same.
type events struct {
	before int

	mu  sync.Mutex
	ids map[int]bool
	err error
}

func (w *events) count(ctx context.Context, c *client) (int, error) {
	answer, err := c.read(ctx, http.MethodGet, c.api+"/events", "")
	if err != nil {
		return 0, err
	}
	var got struct {
		Count int `json:"count"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		return 0, fmt.Errorf("%s: %w", answer, err)
	}
	return got.Count, nil
}

func (w *events) prepare(ctx context.Context, c *client) (err error) {
	w.ids = map[int]bool{}
	w.before, err = w.count(ctx, c)
	return err
}

func (w *events) operate(ctx context.Context, c *client, n int) outcome {
	path := "/events"
	if n%2 == 1 {
		path = "/events/async"
	}
	o := c.change(ctx, c.api+path, "")
	if o.class != acknowledged {
		return o
	}
	var e struct {
		ID int `json:"id"`
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := json.Unmarshal([]byte(o.body), &e); err != nil || e.ID <= w.before || w.ids[e.ID] {
		w.err = fmt.Errorf("the id of %s was given before, or makes no sense", o.body)
	}
	w.ids[e.ID] = true
	return o
}

func (w *events) stored(ctx context.Context, c *client, _ int) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	after, err := w.count(ctx, c)
	if err != nil {
		return 0, err
	}
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(readersAtOnce)
	for id := w.before + 1; id <= after; id++ {
		readers.Go(func() error {
			if _, err := c.read(ctx, http.MethodGet, fmt.Sprintf("%s/events/%d", c.api, id), ""); err != nil {
				return fmt.Errorf("there is a gap at %d: %w", id, err)
			}
			return nil
		})
	}
	return len(w.ids), readers.Wait()
}
