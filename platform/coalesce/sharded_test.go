package coalesce_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
)

// startSharded returns a Sharded with three places, whose requests are the key that they lock. Statements of the shard
// "hung" take until hung is closed, those of others a millisecond.
func startSharded(t *testing.T, hung <-chan struct{}) *coalesce.Sharded[string, string, string, int] {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := coalesce.NewSharded[string](coalesce.Config[string, string, int]{
		Name: "test", Key: func(q string) string { return q },
		Limits: coalesce.Limits{
			LockTimeout: 5 * time.Second, StatementTimeout: 8 * time.Second, Registry: registry,
			Share: contention.NewShare(40, nil), // ten for the callers of one shard
		},
		Run: func(_ context.Context, pass coalesce.Pass, group []string) ([]coalesce.Answer[int], error) {
			switch group[0] {
			case "hung":
				<-hung
			case "locked":
				time.Sleep(pass.Wait)
				return nil, coalesce.ErrLockWait
			}
			time.Sleep(time.Millisecond)
			answers := make([]coalesce.Answer[int], len(group))
			for i := range answers {
				answers[i].Value = len(group)
			}
			return answers, nil
		},
	}, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if _, err := s.Do(ctx, "a", "a"); !errors.Is(err, coalesce.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		n, err := testutil.GatherAndCount(registry, "rowlock_coalesce_queue_length")
		if err != nil || n != 1 {
			t.Errorf("%d queues are measured, %v; want one for all shards", n, err)
		}
	})
	return s
}

// A shard whose server does not answer delays no caller of another, and its own callers get few places.
func TestStalledShardDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		s := startSharded(t, hung)
		var errs []error
		ask := func(shard string) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := s.Do(t.Context(), shard, shard)
				done <- err
			}()
			return done
		}
		first := []<-chan error{ask("hung"), ask("hung")} // one is sent, one waits
		time.Sleep(time.Second)
		var late []<-chan error
		for range 30 {
			late = append(late, ask("hung"))
			synctest.Wait()
			begin := time.Now()
			if err := <-ask("free"); err != nil || time.Since(begin) > 10*time.Millisecond {
				t.Errorf("a caller of another shard: %v after %v", err, time.Since(begin))
			}
		}
		close(hung)
		for _, done := range append(first, late...) {
			errs = append(errs, <-done)
		}
		answered, crowded := 0, 0
		for _, err := range errs {
			switch {
			case err == nil:
				answered++
			case errors.Is(err, contention.ErrCrowded):
				crowded++
			}
		}
		if answered != 12 || crowded != 20 {
			t.Errorf("%d answered and %d refused of the stalled shard, want 12 and 20: %v", answered, crowded, errs)
		}
		if err := <-ask("hung"); err != nil {
			t.Errorf("once its server answers again: %v", err)
		}
	})
}

// Rows that are locked in as many shards as there are places delay the callers of free rows by no more than the brief
// waits that find them locked.
func TestLockedRowsLeavePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startSharded(t, nil)
		refused := make(chan error, 3)
		for _, shard := range []string{"l1", "l2", "l3"} {
			go func() {
				_, err := s.Do(t.Context(), shard, "locked")
				refused <- err
			}()
		}
		time.Sleep(200 * time.Millisecond) // the brief waits are over
		for range 40 {
			begin := time.Now()
			_, err := s.Do(t.Context(), "free", "free")
			if took := time.Since(begin); err != nil || took > 110*time.Millisecond {
				t.Errorf("a caller of a free row: %v after %v", err, took)
			}
			time.Sleep(100 * time.Millisecond)
		}
		for range 3 {
			if err := <-refused; !errors.Is(err, coalesce.ErrLocked) {
				t.Errorf("a caller of a locked row: %v", err)
			}
		}
	})
}

// Callers of one shard share statements; no more statements run at once than there are places, and one that gets none
// is refused and not applied.
func TestShardsShareThePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		s := startSharded(t, hung)
		for _, shard := range []string{"h1", "h2", "h3"} { // all places
			go func() { _, _ = s.Do(t.Context(), shard, "hung") }()
		}
		synctest.Wait()
		begin := time.Now()
		if _, err := s.Do(t.Context(), "free", "free"); !errors.Is(err, coalesce.ErrQueueFull) {
			t.Errorf("without a place: %v, want that the queue is full", err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("refused after %v, want LockTimeout", took)
		}
		close(hung)
		synctest.Wait()
		const callers = 20
		sizes := make(chan int, callers)
		for range callers {
			go func() {
				n, _ := s.Do(t.Context(), "free", "free")
				sizes <- n
			}()
		}
		largest := 0
		for range callers {
			largest = max(largest, <-sizes)
		}
		if largest < callers/2 {
			t.Errorf("the largest group has %d of %d callers", largest, callers)
		}
	})
}
