package postgres_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// upload sends a batch that is long enough for the spool: an item, and 39 that are not in the list.
func (r *rig) upload(item string) (int64, error) {
	lines := append(slices.Repeat([]string{strings.Repeat("x", 1900)}, 39), item)
	return r.service.ApplyBatch(r.Context(), attempt.Increment, list, &source{lines}, "")
}

// source yields lines.
type source struct{ lines []string }

func (s *source) Next() ([]byte, error) {
	if len(s.lines) == 0 {
		return nil, io.EOF
	}
	line := s.lines[0]
	s.lines = s.lines[1:]
	return []byte(line), nil
}

func (s *source) Place() string { return "" }

// Of the batches of a locked item as many wait as there are places, and the others are refused. All other calls go on:
// the batches that wait leave connections to others. Those that waited are applied.
func TestCallsForALockedItemHoldAShare(t *testing.T) {
	t.Parallel()
	const calls = 200
	for name, tc := range map[string]struct {
		places int // spooled batches have an eighth of MAX_IN_FLIGHT, or one
		call   func(*rig) (int64, error)
	}{
		"batch": {places, func(r *rig) (int64, error) {
			return r.ApplyBatch(r.Context(), attempt.Increment, list, attempt.ItemsOf("held"), "")
		}},
		"spooled": {1, func(r *rig) (int64, error) { return r.upload("held") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigOn(t, database(t), sqldb.PoolerNone, slow)
			r.add("a", "b", "held", "z")
			release := r.lock("held")
			answers := make(chan error, calls)
			for range calls {
				go func() {
					n, err := tc.call(r)
					if err == nil && n != 1 {
						t.Errorf("%d items were changed, want 1", n)
					}
					answers <- err
				}()
			}
			waittest.Eventually(t, "those without a place are refused", func() bool { return len(answers) >= calls-tc.places })
			for range 10 {
				n, err := r.ApplyBatch(t.Context(), attempt.Increment, list, attempt.ItemsOf("a", "b"), "")
				if n != 2 || err != nil {
					t.Errorf("another batch: %d, %v", n, err)
				}
				if n, err := r.upload("a"); n != 1 || err != nil {
					t.Errorf("another spooled batch: %d, %v", n, err)
				}
				if n, err := r.Apply(t.Context(), attempt.Increment, list, "z", ""); n != 1 || err != nil {
					t.Errorf("another item: %d, %v", n, err)
				}
				if _, err := r.Claim(t.Context(), "empty", 10, time.Second); err != nil {
					t.Errorf("a claim: %v", err)
				}
			}
			for range calls - tc.places {
				if err := <-answers; !errors.Is(err, contention.ErrCrowded) {
					t.Errorf("got %v, want ErrCrowded", err)
				}
			}
			release()
			for range tc.places {
				if err := <-answers; err != nil {
					t.Error(err)
				}
			}
			if n := apptest.One[int](t, r.db, `SELECT attempts FROM iidy.lists WHERE item = 'held'`); n != tc.places {
				t.Errorf("%d attempts, want %d", n, tc.places)
			}
			free := 0
			for r.share.Take(free) {
				free++
			}
			if free != 3*places {
				t.Errorf("%d permits are free, want %d", free, 3*places)
			}
		})
	}
}
