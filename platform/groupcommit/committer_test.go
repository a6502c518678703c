package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Callers of one key get consecutive values, over two replicas, and share commits.
func TestGroups(t *testing.T) {
	t.Parallel()
	const callers, adds = 32, 25
	dsn := database(t)
	replicas := []*rig{start(t, dsn, dsn), start(t, dsn, dsn)}

	var mu sync.Mutex
	var got []int64
	waittest.Together(t, callers, func(i int) error {
		for range adds {
			n, err := replicas[i%2].Do(t.Context(), request{key: "key-0"})
			if err != nil {
				return err
			}
			mu.Lock()
			got = append(got, n)
			mu.Unlock()
		}
		return nil
	})

	slices.Sort(got)
	for i, n := range got {
		if n != int64(i)+1 {
			t.Fatalf("the answer %d is %d", i+1, n)
		}
	}
	groups := replicas[0].metric(t, "rowlock_coalesce_batch_size_count") +
		replicas[1].metric(t, "rowlock_coalesce_batch_size_count")
	if groups > callers*adds/2 {
		t.Errorf("%g groups for %d requests", groups, callers*adds)
	}
}

// A request that the database refuses fails alone.
func TestOneAtFault(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	r := start(t, dsn, dsn)
	hold := r.hold(t, "key-0") // so that all of them are in one group
	waittest.Together(t, 20, func(i int) error {
		if i == 19 {
			hold.Rollback()
			return nil
		}
		key := fmt.Sprintf("key-%d", i%5)
		if i == 7 {
			key = "full"
		}
		_, err := r.Do(t.Context(), request{key: key})
		if e, ours := errors.AsType[*sqldb.Error](err); i == 7 && ours && e.Reason == sqldb.Constraint {
			return nil
		}
		if i == 7 {
			return fmt.Errorf("beyond the limit: %w", cmpError(err))
		}
		return err
	})
	if n := r.value(t, "full"); n != 999 {
		t.Errorf("the full counter is %d", n)
	}
}

// cmpError returns err, or an error that says that there is none.
func cmpError(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// An error that is not the database's goes to all callers of the group, and nothing is applied.
func TestErrorOfSend(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	r := start(t, dsn, dsn)
	if _, err := r.Do(t.Context(), request{key: "none"}); !errors.Is(err, errMissing) {
		t.Errorf("got %v", err)
	}
	if n, err := r.Do(t.Context(), request{key: "none", make: true}); n != 1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// A caller that leaves before its request was sent takes it along; afterwards the outcome is unknown to it.
func TestLeave(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	sent, goOn := make(chan struct{}, 1), make(chan struct{})
	r := start(t, dsn, dsn, func(c *groupcommit.Config[string, request, int64]) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			sent <- struct{}{}
			<-goOn
			return add(ctx, s, a, group)
		}
	})

	ctx, leave := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := r.Do(ctx, request{key: "key-0"}); first <- err }()
	<-sent
	go func() { _, err := r.Do(ctx, request{key: "key-0"}); second <- err }()
	waittest.Eventually(t, "the second waits", func() bool { return r.metric(t, "rowlock_coalesce_queue_length") == 1 })
	leave()
	if err := <-first; !errors.Is(err, groupcommit.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("the request that was sent: %v", err)
	}
	if err := <-second; !errors.Is(err, groupcommit.ErrLeft) {
		t.Errorf("the request that was not sent: %v", err)
	}
	close(goOn)
	if _, err := r.Do(ctx, request{key: "key-0"}); !errors.Is(err, groupcommit.ErrLeft) {
		t.Errorf("a request of a caller that has left before: %v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.value(t, "key-0"); n != 1 {
		t.Errorf("the counter is %d: the sent request stands, the other does not", n)
	}
}

// The queue is bounded, and Close waits for what has come and refuses what comes.
func TestBounds(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	const queue = 4
	r := start(t, dsn, dsn, func(c *groupcommit.Config[string, request, int64]) {
		c.Queue, c.Size = queue, func(request) int { return 30 << 10 } // two in a group
	})
	hold := r.hold(t, "key-0")
	answers := make(chan error, queue+1)
	do := func() { _, err := r.Do(t.Context(), request{key: "key-0"}); answers <- err }
	go do()
	waittest.Eventually(t, "one is sent", func() bool { return r.metric(t, "rowlock_coalesce_batch_size_count") > 0 })
	for range queue {
		go do()
	}
	waittest.Eventually(t, "the queue is full", func() bool {
		return r.metric(t, "rowlock_coalesce_queue_length") >= queue
	})
	if _, err := r.Do(t.Context(), request{key: "key-1"}); !errors.Is(err, groupcommit.ErrQueueFull) {
		t.Errorf("one more: %v", err)
	}

	closing := make(chan error, 1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Close within no time: %v", err)
	}
	go func() { closing <- r.Close(t.Context()) }()
	waittest.Eventually(t, "new requests are refused", func() bool {
		_, err := r.Do(t.Context(), request{key: "key-1"})
		return errors.Is(err, groupcommit.ErrClosed)
	})
	hold.Rollback()
	for range queue + 1 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if err := <-closing; err != nil {
		t.Error(err)
	}
	if n := r.value(t, "key-0"); n != queue+1 {
		t.Errorf("the counter is %d", n)
	}
}

// A panic, and answers that do not fit, are unknown outcomes of the group alone.
func TestSendBreaksItsContract(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	r := start(t, dsn, dsn, func(c *groupcommit.Config[string, request, int64]) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			switch group[0].key {
			case "panic":
				panic("a bug")
			case "few":
				return a.Store(ctx, s, []int64{})
			case "text":
				return a.Store(ctx, s, "x")
			}
			return add(ctx, s, a, group)
		}
	})
	for _, key := range []string{"panic", "few", "text"} {
		if _, err := r.Do(t.Context(), request{key: key}); !errors.Is(err, groupcommit.ErrUnknown) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if n, err := r.Do(t.Context(), request{key: "key-0"}); n != 1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := groupcommit.New(groupcommit.Config[string, request, int64]{}); err == nil {
		t.Error("a configuration without a name is accepted")
	}
	_, err := groupcommit.New(groupcommit.Config[string, request, int64]{
		Name: "x", Key: request.of, Send: add, Transaction: true, Limits: groupcommit.Limits{DB: new(sqldb.DB)},
	})
	if err == nil {
		t.Error("a configuration without timeouts is accepted")
	}
	limits := groupcommit.Limits{DB: new(sqldb.DB), LockTimeout: lockTimeout, StatementTimeout: statementTimeout}
	_, err = groupcommit.New(groupcommit.Config[string, request, int64]{
		Name: "x", Key: request.of, Send: add, Limits: limits,
	})
	if err == nil {
		t.Error("a single statement without slots is accepted")
	}
	limits.Pipeline, limits.InFlight = groupcommit.NewPipeline(), 2
	_, err = groupcommit.New(groupcommit.Config[string, request, int64]{
		Name: "x", Key: request.of, Send: add, Transaction: true, Limits: limits,
	})
	if err == nil {
		t.Error("a pipeline with several groups in flight is accepted")
	}
}
