package check

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// eventsAtOnce is how many there are at once; every second one is left to the workers.
const eventsAtOnce = 40

// workerPatience is how long a pending event may wait for its worker, and look how often it is looked at.
const (
	workerPatience = 30 * time.Second
	look           = 200 * time.Millisecond
)

// event is one as the service shows it. Value is null while it is pending.
type event struct {
	ID    int64           `json:"id"`
	Value json.RawMessage `json:"value"`
}

func events(ctx context.Context, c *client) (string, error) {
	url := c.target.URL + "/events"
	ids := make([]int64, eventsAtOnce)
	err := together(eventsAtOnce, func(i int) error {
		path, status := "", http.StatusCreated
		if i%2 == 1 {
			path, status = "/async", http.StatusAccepted
		}
		a, err := c.want(ctx, status, http.MethodPost, url+path, "")
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal([]byte(a.body), &e); err != nil {
			return fmt.Errorf("%s: %w", a.body, err)
		}
		ids[i] = e.ID
		return nil
	})
	if err != nil {
		return "", err
	}
	pending := []int64{}
	for i, id := range ids {
		if i%2 == 1 {
			pending = append(pending, id)
		}
	}
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != eventsAtOnce {
		return "", fmt.Errorf("%d events at once got the ids %v, some of them twice", eventsAtOnce, ids)
	}
	// Others may make events meanwhile, so ids between ours may be theirs; none is nobody's.
	first, last := ids[0], ids[len(ids)-1]
	for id := first; id <= last; id++ {
		if _, err := c.want(ctx, http.StatusOK, http.MethodGet, fmt.Sprintf("%s/%d", url, id), ""); err != nil {
			return "", fmt.Errorf("there is a gap between the ids %d and %d: %w", first, last, err)
		}
	}
	began := time.Now()
	for _, id := range pending {
		if err := c.worked(ctx, fmt.Sprintf("%s/%d", url, id), began.Add(workerPatience)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d events at once: ids from %d to %d, none twice and none missing; the workers have done theirs",
		eventsAtOnce, first, last), nil
}

// worked waits until an event has its value.
func (c *client) worked(ctx context.Context, url string, deadline time.Time) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		a, err := c.want(ctx, http.StatusOK, http.MethodGet, url, "")
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal([]byte(a.body), &e); err != nil {
			return fmt.Errorf("GET %s: %w", url, err)
		}
		if len(e.Value) > 0 && string(e.Value) != "null" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no worker took %s within %s: %s", url, workerPatience, a.body)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
