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
	locked, unlocked time.Time
	changes          []lateChange // that were answered
}

type lateChange struct {
	until, call time.Time
	changed     int64
}

// prepare fills a list and claims its items. The changes are sent by send.
func (l *lateClaims) prepare(ctx context.Context) (name string, lock *lateLock, send func()) {
	l.mu.Lock()
	lock = &lateLock{}
	l.locks = append(l.locks, lock)
	name = fmt.Sprintf("%s-late-%d", l.prefix, len(l.locks))
	l.mu.Unlock()
	list := l.api.List(name)
	items := make([]string, lateItems)
	for i := range items {
		items[i] = fmt.Sprintf("%03d", i)
	}
	claims := make([]api.Claim, lateItems)
	if _, err := list.Add(ctx, items...); err == nil {
		var all sync.WaitGroup
		for i := range claims {
			all.Go(func() {
				if c, err := list.Claim(ctx, 1, workLease+time.Duration(i)*lateEvery); err == nil {
					claims[i] = c
				}
			})
		}
		all.Wait()
	}
	return name, lock, func() {
		for i, c := range claims {
			if c.ID == "" {
				continue
			}
			l.sent.Go(func() {
				if wait := time.Until(c.Until) - lateBefore; wait > 0 && pause(ctx, wait) {
					l.change(context.WithoutCancel(ctx), lock, list, c, i%2 == 0)
				}
			})
		}
	}
}

// change sends one late change.
func (l *lateClaims) change(ctx context.Context, lock *lateLock, list *api.List, c api.Claim, remove bool) {
	do := list.IncrementClaimed
	if remove {
		do = list.DeleteClaimed
	}
	call := time.Now()
	n, err := do(ctx, c.ID, c.Entries[0].Item)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lock.changes = append(lock.changes, lateChange{c.Until, call, n})
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

// lock locks the rows of a list that is worked on, and changes those of a list of claims.
// A row that is locked and not changed may be taken as changed before the lock.
func (w *iidy) lock(ctx context.Context) fault.Lock {
	list, lock, send := w.waiting.prepare(ctx)
	stamp := func(at *time.Time) {
		w.waiting.mu.Lock()
		defer w.waiting.mu.Unlock()
		*at = time.Now()
	}
	return fault.Lock{
		Statement: fmt.Sprintf(`SELECT FROM iidy.lists WHERE list = '%s' ORDER BY item FOR UPDATE;
			UPDATE iidy.lists SET attempts = attempts WHERE list = '%s'`, w.lists.first(), list),
		Locked: func() {
			stamp(&lock.locked)
			send()
		},
		Unlocking: func() { stamp(&lock.unlocked) },
		Commit:    true,
	}
}
