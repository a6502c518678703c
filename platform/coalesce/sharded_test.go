package coalesce_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// sharded asks a Sharded for keys in shards of its servers.
type sharded struct {
	*coalesce.Sharded[string, string, int]
}

// ask asks for a key in the n-th shard of a server.
func (s sharded) ask(ctx context.Context, server, n int64, key string) (int, error) {
	return s.Do(ctx, sqldb.Shard{ID: 100*server + n, Server: server}, key)
}

// startSharded returns a Sharded with places, whose requests are the key that they lock. Statements for the key "hung"
// take until hung is closed, those for "locked" wait in vain, those for "freed" until the row is free, those for
// "later" too and then as "hung", and those for others take a millisecond.
func startSharded(t *testing.T, places int, hung <-chan struct{}, freed func() time.Time) sharded {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := coalesce.NewSharded(coalesce.Config[string, string, int]{
		Name: "test", Key: func(q string) string { return q },
		Limits: coalesce.Limits{
			LockTimeout: 5 * time.Second, StatementTimeout: 8 * time.Second, Registry: registry,
			Share: contention.NewShare(40, nil), // ten for the callers of one shard
		},
		Run: func(_ context.Context, pass coalesce.Pass, group []string) ([]coalesce.Answer[int], error) {
			if slices.Contains(group, "hung") || slices.Contains(group, "later") && time.Now().After(freed()) {
				<-hung
			}
			time.Sleep(time.Millisecond)
			answers, begin := make([]coalesce.Answer[int], len(group)), time.Now()
			for i, key := range group {
				var left time.Duration
				switch key {
				case "locked":
					left = time.Hour
				case "freed", "later":
					left = freed().Sub(begin)
				}
				answers[i] = coalesce.Answer[int]{Value: len(group), Locked: left > 0 && pass.SkipLocked}
				if left > 0 && !pass.SkipLocked {
					time.Sleep(min(time.Until(begin.Add(pass.Wait)), time.Until(begin.Add(left))))
				}
				if left > pass.Wait && !pass.SkipLocked {
					return nil, coalesce.ErrLockWait
				}
			}
			return answers, nil
		},
	}, places)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if _, err := s.Do(ctx, sqldb.Shard{}, "a"); !errors.Is(err, coalesce.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		n, err := testutil.GatherAndCount(registry, "rowlock_coalesce_queue_length")
		if err != nil || n != 1 {
			t.Errorf("%d queues are measured, %v; want one for all shards", n, err)
		}
	})
	return sharded{s}
}

// A shard whose server does not answer delays no caller of another, and its own callers get few places.
func TestStalledShardDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		s := startSharded(t, 3, hung, nil)
		var errs []error
		servers := map[string]int64{"hung": 1, "free": 2}
		ask := func(key string) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := s.ask(t.Context(), servers[key], 1, key)
				done <- err
			}()
			return done
		}
		first := []<-chan error{ask("hung")}
		time.Sleep(100 * time.Millisecond)
		for range 16 { // they wait for the statement of the first, and ten of them may once it is late
			first = append(first, ask("hung"))
		}
		time.Sleep(time.Second)
		var late []<-chan error
		for range 15 {
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
		if answered != 11 || crowded != 21 {
			t.Errorf("%d answered and %d refused of the stalled shard, want 11 and 21: %v", answered, crowded, errs)
		}
		if err := <-ask("hung"); err != nil {
			t.Errorf("once its server answers again: %v", err)
		}
	})
}

// Each shard has a locked row with many callers: those of free rows beside them are answered.
func TestFreeRowsBesideLockedOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startSharded(t, 5, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const servers = 4
		for server := range int64(servers) {
			time.Sleep(137 * time.Millisecond)
			for range 15 {
				go func() {
					for ctx.Err() == nil {
						if _, err := s.ask(ctx, server, 1, "locked"); errors.Is(err, contention.ErrCrowded) {
							time.Sleep(10 * time.Millisecond)
						}
					}
				}()
			}
		}
		for range 4000 {
			for server := range int64(servers) {
				if _, err := s.ask(t.Context(), server, 1, "free"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// Rows that are locked in shards of a server, one where it has a single place and many where it has several, leave that
// server's places to the callers of others.
func TestLockedRowsLeaveTheirServerPlaces(t *testing.T) {
	t.Parallel()
	for places, locked := range map[int]int64{2: 1, 9: 16} {
		synctest.Test(t, func(t *testing.T) {
			s := startSharded(t, places, nil, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for n := range locked {
				go func() {
					for ctx.Err() == nil {
						_, _ = s.ask(ctx, 1, n, "locked")
					}
				}()
				time.Sleep(137 * time.Millisecond)
			}
			time.Sleep(2 * time.Second)
			const asked = 100
			var took time.Duration
			for range asked {
				time.Sleep(37 * time.Millisecond)
				begin := time.Now()
				if _, err := s.ask(t.Context(), 1, 99, "free"); err != nil {
					t.Error(err)
				}
				took += time.Since(begin)
			}
			if mean := took / asked; mean > 20*time.Millisecond {
				t.Errorf("%d places, %d rows locked: a caller of another one waits %s", places, locked, mean)
			}
		})
	}
}

// A key is known as locked when its server stalls: of the callers that wait for the one which finds out, as many are
// refused as of others.
func TestCallersBehindAProbeOfAStalledShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung, free := make(chan struct{}), time.Now().Add(time.Second)
		s := startSharded(t, 4, hung, func() time.Time { return free })
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := s.ask(ctx, 1, 1, "later"); err == nil {
			t.Fatal("the row is not locked")
		}
		time.Sleep(2 * time.Second)
		const callers = 100
		answers := make(chan error, callers)
		for range callers {
			go func() {
				_, err := s.ask(t.Context(), 1, 1, "later")
				answers <- err
			}()
		}
		time.Sleep(time.Second)
		if n := len(answers); n < callers-12 {
			t.Errorf("%d of %d are refused", n, callers)
		}
		close(hung)
		for range callers {
			if err := <-answers; err != nil && !errors.Is(err, contention.ErrCrowded) {
				t.Error(err)
			}
		}
	})
}

// A server that does not answer has more shards than there are places: half of these are left to another one.
func TestHungServerLeavesHalfOfThePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		s := startSharded(t, 4, hung, nil)
		for n := range int64(16) {
			go func() { _, _ = s.ask(t.Context(), 1, n, "hung") }()
		}
		synctest.Wait()
		for n := range int64(16) {
			begin := time.Now()
			if _, err := s.ask(t.Context(), 2, n, "free"); err != nil || time.Since(begin) > 10*time.Millisecond {
				t.Errorf("a caller of another server: %v after %v", err, time.Since(begin))
			}
		}
		close(hung)
	})
}

// Rows that stay locked take all places of those that wait: a row that has come free is found all the same.
func TestAFreedRowIsFoundBesideLockedOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var free time.Time
		s := startSharded(t, 4, nil, func() time.Time { return free })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for server := range int64(8) {
			go func() {
				for ctx.Err() == nil {
					_, _ = s.ask(ctx, server, 1, "locked")
				}
			}()
			time.Sleep(137 * time.Millisecond)
		}
		for range 20 {
			begin := time.Now()
			free = begin.Add(200 * time.Millisecond)
			_, err := s.ask(t.Context(), 9, 1, "freed")
			if took := time.Since(begin); err != nil || took > 600*time.Millisecond {
				t.Errorf("%v after %v, which was free after 200 ms", err, took)
			}
			time.Sleep(537 * time.Millisecond)
		}
	})
}

// Rows that are locked in as many shards as there are places delay the callers of free rows by no more than the brief
// waits that find them locked.
func TestLockedRowsLeavePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startSharded(t, 3, nil, nil)
		refused := make(chan error, 3)
		for server := range int64(3) {
			go func() {
				_, err := s.ask(t.Context(), server, 1, "locked")
				refused <- err
			}()
		}
		time.Sleep(200 * time.Millisecond) // the brief waits are over
		for range 40 {
			begin := time.Now()
			_, err := s.ask(t.Context(), 9, 1, "free")
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
		s := startSharded(t, 3, hung, nil)
		for server := range int64(3) { // all places
			go func() { _, _ = s.ask(t.Context(), server, 1, "hung") }()
		}
		synctest.Wait()
		begin := time.Now()
		if _, err := s.ask(t.Context(), 9, 1, "free"); !errors.Is(err, coalesce.ErrQueueFull) {
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
				n, _ := s.ask(t.Context(), 9, 1, "free")
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
