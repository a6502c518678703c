package prove

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

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

// lateLock is one time that a list was locked, with the changes that were sent meanwhile.
type lateLock struct {
	unlocked time.Time
	changes  []lateChange // that were answered
}

type lateChange struct {
	until   time.Time // the end of its lease
	changed int64
}

// lock locks the rows of a list that is worked on, and changes those of another list,
// each of which is leased to a claim of its own. The leases end one after the other, and
// just before, each claim's holder sends a change, which waits for the lock. What gets its
// row when the lease is over must change nothing: it comes after this transaction's
// change, and that after the lease. A row that was locked and not changed could be taken
// as changed before the lock.
func (w *iidy) lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
	late := &lateLock{}
	w.mu.Lock()
	w.late = append(w.late, late)
	name := fmt.Sprintf("%s-late-%d", w.prefix, len(w.late))
	w.mu.Unlock()
	claims := claimEach(ctx, w.api.List(name))
	_, err := tx.ExecContext(ctx, `SELECT FROM iidy.lists WHERE list = $1 ORDER BY item FOR UPDATE`, w.first())
	if err != nil {
		return err //nolint:wrapcheck // the fault names itself
	}
	locked, err := tx.ExecContext(ctx, `UPDATE iidy.lists SET attempts = attempts WHERE list = $1`, name)
	for i, claim := range claims {
		w.lateSent.Go(func() { w.sendLate(context.WithoutCancel(ctx), late, w.api.List(name), i, claim) })
	}
	err = hold(locked, err)
	late.unlocked = time.Now()
	return err
}

// claimEach fills a list and claims its items one by one.
func claimEach(ctx context.Context, list *api.List) (claims []api.Claim) {
	items := make([]string, lateItems)
	for i := range items {
		items[i] = fmt.Sprintf("%03d", i)
	}
	if _, err := list.Add(ctx, items...); err != nil {
		return nil
	}
	for i := range items {
		claim, err := list.Claim(ctx, 1, workLease+time.Duration(i)*lateEvery)
		if err == nil && len(claim.Entries) > 0 {
			claims = append(claims, claim)
		}
	}
	return claims
}

// sendLate sends a change of a claim just before the end of its lease.
func (w *iidy) sendLate(ctx context.Context, late *lateLock, list *api.List, i int, claim api.Claim) {
	change := list.IncrementClaimed
	if i%2 == 0 {
		change = list.DeleteClaimed
	}
	fault.Wait(ctx, time.Until(claim.Until)-lateBefore)
	n, err := change(ctx, claim.ID, claim.Entries[0].Item)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		late.changes = append(late.changes, lateChange{claim.Until, n})
	}
}

// countLate counts the changes whose lease ended before the list was unlocked.
func countLate(locks []*lateLock) (refused, applied int) {
	for _, lock := range locks {
		for _, c := range lock.changes {
			switch {
			case !c.until.Add(history.ClockSlack).Before(lock.unlocked):
			case c.changed > 0:
				applied++
			default:
				refused++
			}
		}
	}
	return refused, applied
}
