package coalesce_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Statements hang, end as they become late, panic, split and meet locked rows, and callers leave at any time: no
// request is run twice, each caller gets its own answer, and every place comes back.
func TestShardedAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { runAtRandom(t, seed) })
	}
}

func runAtRandom(t *testing.T, seed uint64) {
	t.Helper()
	random, registry, share := rand.New(rand.NewPCG(seed, 1)), prometheus.NewRegistry(), contention.NewShare(40, nil)
	var mu sync.Mutex
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	ran := make(map[int]int)
	s, err := coalesce.NewSharded(coalesce.Config[string, int, int]{
		Name: "test", Key: func(q int) string { return strconv.Itoa(q % 6) }, MaxItems: 1 + int(seed%5),
		Limits: coalesce.Limits{
			InFlight: 1 + int(seed%3), LockTimeout: 5 * time.Second, StatementTimeout: 8 * time.Second,
			Share: share, Registry: registry,
		},
		Run: func(_ context.Context, pass coalesce.Pass, group []int) ([]coalesce.Answer[int], error) {
			switch fault := roll(12); {
			case fault == 0:
				time.Sleep(time.Duration(roll(4000)) * time.Millisecond)
			case fault == 1:
				time.Sleep(pass.Wait + 500*time.Millisecond) // when it becomes late
			case fault == 2:
				return nil, coalesce.ErrSplit
			case fault == 3:
				panic("a statement panics")
			case fault < 7 && !pass.SkipLocked:
				time.Sleep(pass.Wait)
				return nil, coalesce.ErrLockWait
			}
			answers := make([]coalesce.Answer[int], len(group))
			for i, q := range group {
				answers[i] = coalesce.Answer[int]{Value: q, Locked: pass.SkipLocked && roll(2) == 0}
				if !answers[i].Locked {
					mu.Lock()
					ran[q]++
					mu.Unlock()
				}
			}
			return answers, nil
		},
	}, 1+int(seed%6))
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for q := range 600 {
		callers.Go(func() {
			time.Sleep(time.Duration(roll(8000)) * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+roll(9000))*time.Millisecond)
			defer cancel()
			shard := int64(q % 4)
			if got, err := s.Do(ctx, sqldb.Shard{ID: shard, Server: shard % 2}, q); err == nil && got != q {
				t.Errorf("seed %d: %d got the answer of %d", seed, q, got)
			}
		})
	}
	callers.Wait()
	if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	for q, n := range ran {
		if n > 1 {
			t.Errorf("seed %d: %d was run %d times", seed, q, n)
		}
	}
	if n := share.Free(); n != 20 {
		t.Errorf("seed %d: %d of 20 places are free", seed, n)
	}
	if n := apptest.Gathered(t, registry, `rowlock_coalesce_queue_length{coalescer="test"}`); n != 0 {
		t.Errorf("seed %d: %g requests are queued", seed, n)
	}
}
