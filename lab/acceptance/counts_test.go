package acceptance

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// TestOverlappingChanges changes random, overlapping sets of counters by random
// amounts from 20 clients over three replicas: every sum is exact, and PostgreSQL
// has seen no deadlock.
func TestOverlappingChanges(t *testing.T) {
	t.Parallel()
	for name, pooled := range map[string]bool{"direct": false, "through pgbouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const counters, clients, lasts = 50, 20, 6 * time.Second
			dsn := dbtest.Empty(t)
			lookForDeadlocks(t, dsn)
			env, through := map[string]string{}, dsn
			if pooled {
				through = dbtest.PgBouncer(t, dsn, 6)
				env["DB_POOLER"] = "transaction" // and the migrations run through it too
			}
			set := start(t, "counts", 3, through, env)
			var apis []*counts.Client
			for _, url := range urls(set) {
				c, err := counts.New(url, options())
				if err != nil {
					t.Fatal(err)
				}
				apis = append(apis, c)
			}
			var sums [counters]atomic.Int64
			for i := range sums {
				if _, err := apis[0].Create(t.Context(), strconv.Itoa(i), 0); err != nil {
					t.Fatal(err)
				}
			}
			var changes atomic.Int64
			end := time.Now().Add(lasts)
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for time.Now().Before(end) {
						var batch sync.WaitGroup
						for _, i := range rand.Perm(counters)[:5+rand.IntN(15)] {
							batch.Go(func() {
								delta, err := changeAtRandom(t.Context(), apis[rand.IntN(len(apis))], strconv.Itoa(i))
								if err != nil {
									t.Errorf("change %d: %v", i, err)
								}
								sums[i].Add(delta)
								changes.Add(1)
							})
						}
						batch.Wait()
					}
				})
			}
			all.Wait()
			for i := range sums {
				if c, err := apis[0].Get(t.Context(), strconv.Itoa(i)); err != nil || c.Value != sums[i].Load() {
					t.Errorf("counter %d is %d, %v, want %d", i, c.Value, err, sums[i].Load())
				}
			}
			if changes.Load() < 1000 {
				t.Errorf("%d changes are too few to prove anything", changes.Load())
			}
			wantNoDeadlock(t, set, dsn)
		})
	}
}

// changeAtRandom increases or decreases a counter and returns by how much.
func changeAtRandom(ctx context.Context, c *counts.Client, id string) (delta int64, err error) {
	amount := 1 + rand.Int64N(1000)
	if rand.IntN(2) == 0 {
		_, err = c.Decrease(ctx, id, amount)
		return -amount, err
	}
	_, err = c.Increase(ctx, id, amount)
	return amount, err
}
