package prove

import (
	"context"
	"fmt"
	"sync"
	"time"

	api "github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
)

// lateChanges names a check.
const lateChanges = "late changes"

const (
	lateItems = 24
	// The leases of the items end from the shortest one on, at this distance.
	lateEvery = 200 * time.Millisecond
	// lateBefore is how long before its lease's end a change is sent.
	lateBefore = 250 * time.Millisecond
)

// lateClaims sends changes that wait for a lock while their lease ends. Another
// transaction changes the items of a list, each of which is leased to a claim of its
// own. The leases end one after the other, and just before, each claim's holder sends a
// change, which waits for the lock. What gets its row when the lease is over must change
// nothing: it comes after the other transaction's change, and that after the lease.
type lateClaims struct {
	api    *api.Client
	prefix string
	sent   sync.WaitGroup

	mu    sync.Mutex
	locks []*lateLock
}

// lateLock is one time that a list is locked.
type lateLock struct {
	name             string
	claims           []api.Claim
	locked, unlocked time.Time
	changes          []lateChange // that were answered
}

type lateChange struct {
	until, call time.Time
	changed     int64
}

// prepare fills a list and claims its items.
func (l *lateClaims) prepare(ctx context.Context) *lateLock {
	l.mu.Lock()
	lock := &lateLock{name: fmt.Sprintf("%s-late-%d", l.prefix, len(l.locks)), claims: make([]api.Claim, lateItems)}
	l.locks = append(l.locks, lock)
	l.mu.Unlock()
	list := l.api.List(lock.name)
	items := make([]string, lateItems)
	for i := range items {
		items[i] = fmt.Sprintf("%03d", i)
	}
	if _, err := list.Add(ctx, items...); err == nil {
		var all sync.WaitGroup
		for i := range lock.claims {
			all.Go(func() { // without a claim, nothing is sent
				lock.claims[i], _ = list.Claim(ctx, 1, workLease+time.Duration(i)*lateEvery)
			})
		}
		all.Wait()
	}
	return lock
}

// send sends a late change of each claim.
func (l *lateClaims) send(ctx context.Context, lock *lateLock) {
	list := l.api.List(lock.name)
	for i, c := range lock.claims {
		do := list.IncrementClaimed
		if i%2 == 0 {
			do = list.DeleteClaimed
		}
		l.sent.Go(func() {
			wait := time.Until(c.Until) - lateBefore
			if len(c.Entries) == 0 || wait <= 0 || !pause(ctx, wait) {
				return
			}
			call := time.Now()
			n, err := do(context.WithoutCancel(ctx), c.ID, c.Entries[0].Item)
			l.mu.Lock()
			defer l.mu.Unlock()
			if err == nil {
				lock.changes = append(lock.changes, lateChange{c.Until, call, n})
			}
		})
	}
}

// count counts the changes that were sent while the list was locked and whose lease
// ended before it was unlocked.
func (l *lateClaims) count() (refused, applied int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lock := range l.locks {
		for _, c := range lock.changes {
			waited := !lock.locked.IsZero() && !c.call.Before(lock.locked) &&
				c.until.Add(history.ClockSlack).Before(lock.unlocked)
			switch {
			case waited && c.changed > 0:
				applied++
			case waited:
				refused++
			}
		}
	}
	return refused, applied
}

func (l *lateClaims) stamp(at *time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*at = time.Now()
}

// lock locks the rows of a list that is worked on, and changes those of a list of claims.
// A row that is locked and not changed may be taken as changed before the lock.
func (w *iidy) lock(ctx context.Context) fault.Lock {
	lock := w.waiting.prepare(ctx)
	return fault.Lock{
		Statement: fmt.Sprintf(`SELECT FROM iidy.lists WHERE list = '%s' ORDER BY item FOR UPDATE;
			UPDATE iidy.lists SET attempts = attempts WHERE list = '%s'`, w.lists.first(), lock.name),
		Locked: func() {
			w.waiting.stamp(&lock.locked)
			w.waiting.send(ctx, lock)
		},
		Unlocking: func() { w.waiting.stamp(&lock.unlocked) },
		Commit:    true,
	}
}
