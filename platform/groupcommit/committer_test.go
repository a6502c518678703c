package groupcommit_test

import (
	"context"
	"errors"
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
	replicas := []*rig{startOn(t, sqldb.ClusterNone, dsn, dsn), startOn(t, sqldb.ClusterNone, dsn, dsn)}

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

// A request that the database refuses fails alone, and so does one for which Send asks for the halves of its group. The
// slots are used again.
func TestOneAtFault(t *testing.T) {
	t.Parallel()
	split := func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
		if slices.Contains(group, request{key: "full"}) {
			return groupcommit.ErrSplit
		}
		return add(ctx, s, a, group)
	}
	for name, tc := range map[string]struct {
		send    func(context.Context, groupcommit.Session, *groupcommit.Attempt, []request) error
		refused func(error) bool
	}{
		"the database": {add, func(err error) bool {
			e, ours := errors.AsType[*sqldb.Error](err)
			return ours && e.Reason == sqldb.Constraint
		}},
		"Send": {split, func(err error) bool { return errors.Is(err, groupcommit.ErrSplit) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goOn := make(chan struct{})
			r := start(t, func(c *config) {
				c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
					<-goOn // so that all but the first are in one group
					return tc.send(ctx, s, a, group)
				}
			})
			refused := r.doAll(t.Context(), 1, request{key: "full"})
			others := r.doAll(t.Context(), 19, request{key: "key-0"})
			waittest.Eventually(t, "all have come", func() bool {
				return r.metric(t, "rowlock_coalesce_batch_size_sum")+r.metric(t, "rowlock_coalesce_queue_length") == 20
			})
			close(goOn)

			if err := <-refused; !tc.refused(err) {
				t.Errorf("the request at fault: %v", err)
			}
			want(t, others, 19, nil)
			r.wantValue(t, "key-0", 19)
			r.wantValue(t, "full", 999)
			r.wantSlots(t, 1)
		})
	}
}

// A caller that leaves before its request was sent takes it along; afterwards the outcome is unknown to it.
func TestLeave(t *testing.T) {
	t.Parallel()
	sent, goOn := make(chan struct{}, 1), make(chan struct{})
	r := start(t, func(c *config) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			sent <- struct{}{}
			<-goOn
			return add(ctx, s, a, group)
		}
	})

	ctx, leave := context.WithCancel(t.Context())
	first := r.doAll(ctx, 1, request{key: "key-0"})
	<-sent
	second := r.doAll(ctx, 1, request{key: "key-0"})
	r.wantQueue(t, 1)
	leave()
	if err := <-first; !errors.Is(err, groupcommit.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("the request that was sent: %v", err)
	}
	want(t, second, 1, groupcommit.ErrLeft)
	close(goOn)
	if err := r.do(ctx, "key-0"); !errors.Is(err, groupcommit.ErrLeft) {
		t.Errorf("a request of a caller that has left before: %v", err)
	}

	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	r.wantValue(t, "key-0", 1) // the sent request stands, the other does not
}

// The queue is bounded, and Close waits for what has come and refuses what comes.
func TestBounds(t *testing.T) {
	t.Parallel()
	const queue = 4
	r := start(t, func(c *config) {
		c.Queue, c.Size = queue, func(request) int { return 30 << 10 } // two in a group
	})
	hold := r.hold(t, "key-0")
	first := r.doAll(t.Context(), 1, request{key: "key-0"})
	waittest.Eventually(t, "one is sent", func() bool { return r.metric(t, "rowlock_coalesce_batch_size_count") > 0 })
	others := r.doAll(t.Context(), queue, request{key: "key-0"})
	waittest.Eventually(t, "the queue is full", func() bool {
		return r.metric(t, "rowlock_coalesce_queue_length") >= queue
	})
	if err := r.do(t.Context(), "key-1"); !errors.Is(err, groupcommit.ErrQueueFull) {
		t.Errorf("one more: %v", err)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Close within no time: %v", err)
	}
	if err := r.do(t.Context(), "key-1"); !errors.Is(err, groupcommit.ErrClosed) {
		t.Errorf("a request after Close: %v", err)
	}
	hold.Rollback()
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	r.wantValue(t, "key-0", queue+1)
	want(t, first, 1, nil)
	want(t, others, queue, nil)
}

// An error of Send goes to the callers, and nothing is applied. A panic, and answers that do not fit, are unknown
// outcomes. The next group is not affected.
func TestSendFails(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *config) {
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

	for key, wanted := range map[string]error{
		"missing": errMissing, "panic": groupcommit.ErrUnknown, "few": groupcommit.ErrUnknown, "text": groupcommit.ErrUnknown,
	} {
		if err := r.do(t.Context(), key); !errors.Is(err, wanted) {
			t.Errorf("%s: got %v, want %v", key, err, wanted)
		}
	}
	if n, err := r.Do(t.Context(), request{key: "missing", make: true}); n != 1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*config){
		"without a name":      func(c *config) { c.Name = "" },
		"without timeouts":    func(c *config) { c.LockTimeout = 0 },
		"that proves nothing": func(c *config) { c.Transaction = false },
	} {
		cfg := config{
			Name: "x", Key: request.of, Send: add, Transaction: true,
			Limits: groupcommit.Limits{DB: new(sqldb.DB), LockTimeout: lockTimeout, StatementTimeout: statementTimeout},
		}
		change(&cfg)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a configuration %s is accepted", what)
				}
			}()
			groupcommit.New(cfg)
		}()
	}
}
