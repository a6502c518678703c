package groupcommit_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// leases are held in memory: by another holder, or with a number for each group.
type leases struct {
	mu    sync.Mutex
	held  map[string]string // by key
	takes int
}

func (l *leases) take(_ context.Context, _ groupcommit.Attempt, group []request) (any, []bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takes++
	token, held := strconv.Itoa(l.takes), make([]bool, len(group))
	for i, q := range group {
		if l.held[q.key] == "" {
			l.held[q.key] = token
		}
		held[i] = l.held[q.key] != token
	}
	return token, held, nil
}

func (l *leases) release(_ context.Context, token any, group []request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range group {
		if token == l.held[q.key] {
			delete(l.held, q.key)
		}
	}
}

// set makes another holder lease a key, or release it.
func (l *leases) set(key, holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
	if holder != "" {
		l.held[key] = holder
	}
}

func (l *leases) tries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takes
}

// startLeasing starts a replica that leases its keys.
func startLeasing(t *testing.T, retries int, changes ...func(*config)) (*rig, *leases) {
	t.Helper()
	l := &leases{held: map[string]string{}}
	leasing := func(c *config) {
		c.Lease = &groupcommit.Lease[request]{
			Take: l.take, Release: l.release, RetryWait: time.Millisecond, Retries: retries,
		}
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			if err := add(ctx, s, a, group); err != nil {
				return err
			}
			l.release(ctx, a.Lease, group)
			return nil
		}
	}
	return start(t, append([]func(*config){leasing}, changes...)...), l
}

// A key that another holder leases delays its own callers alone, who are answered once it is free.
func TestAHeldKeyDelaysItsOwnCallers(t *testing.T) {
	t.Parallel()
	r, l := startLeasing(t, 1_000_000)
	l.set("key-0", "another")
	held := r.doAll(t.Context(), 20, request{key: "key-0"})
	r.wantLanes(t, 1)

	want(t, r.doAll(t.Context(), 20, request{key: "key-1"}), 20, nil)
	l.set("key-0", "")
	want(t, held, 20, nil)
	r.wantValue(t, "key-0", 20)
}

// The leases of a group that fails, and of a request whose lease was lost, are given back.
func TestLeasesAreGivenBack(t *testing.T) {
	t.Parallel()
	failure := errors.New("it fails")
	var lost, failed bool
	r, l := startLeasing(t, 1, func(c *config) {
		send := c.Send
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			switch {
			case !failed:
				failed = true
				return failure
			case !lost:
				lost = true
				return a.Store(ctx, s, make([]*int64, len(group)))
			}
			return send(ctx, s, a, group)
		}
	})
	for i, want := range []error{failure, nil} {
		if err := r.do(t.Context(), "key-0"); !errors.Is(err, want) {
			t.Errorf("%d: got %v, want %v", i, err, want)
		}
	}

	r.wantValue(t, "key-0", 1)
	if len(l.held) != 0 {
		t.Errorf("held are %v", l.held)
	}
}

// Callers of a key that is held for a moment need no permit of the share, however many they are.
func TestABriefLeaseNeedsNoPermit(t *testing.T) {
	t.Parallel()
	const callers = 20
	r, l := startLeasing(t, 1_000_000, func(c *config) {
		c.Share = contention.NewShare(6, nil) // one permit for a key
	})
	l.set("key-0", "another")
	answers := r.doAll(t.Context(), callers, request{key: "key-0"})
	want(t, answers, callers-1, contention.ErrCrowded)
	if n := l.tries(); n < 5 {
		t.Errorf("%d tries before that: a permit was needed at once", n)
	}
	l.set("key-0", "")
	want(t, answers, 1, nil)
}

// A group has no more keys than it may, and any number of requests of each.
func TestKeysOfAGroupAreBounded(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var most, all int
	goOn := make(chan struct{})
	r := start(t, func(c *config) {
		c.MaxKeys = 3
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			<-goOn
			keys := map[string]bool{}
			for _, q := range group {
				keys[q.key] = true
			}
			mu.Lock()
			most, all = max(most, len(keys)), all+1
			mu.Unlock()
			return add(ctx, s, a, group)
		}
	})
	const keys, perKey = 12, 5
	answers := make([]<-chan error, keys)
	for i := range keys {
		answers[i] = r.doAll(t.Context(), perKey, request{key: "key-" + strconv.Itoa(i)})
	}
	waittest.Eventually(t, "all but the first group wait", func() bool {
		return r.metric(t, "rowlock_coalesce_queue_length") >= (keys-3)*perKey
	})
	close(goOn)
	for i := range keys {
		want(t, answers[i], perKey, nil)
	}
	if most > 3 || all < keys/3 {
		t.Errorf("%d groups, the largest of %d keys", all, most)
	}
}
