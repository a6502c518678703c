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
	// lateClaims hold lateItems each. Their leases end from the shortest one on, at this distance.
	lateClaims, lateItems = 6, 9
	lateEvery             = 500 * time.Millisecond
	// lateBefore is the time before the end of a lease at which the first of its changes is sent.
	lateBefore = 120 * time.Millisecond
	// lateAfter is the time from the end of a lease until the list is unlocked. A try waits longer for a lock.
	lateAfter = history.ClockSlack + time.Millisecond
)

// lateLock records one lock of a list, with the changes that were sent during it.
type lateLock struct {
	unlocked time.Time
	changes  []lateChange // that were answered
}

type lateChange struct {
	until   time.Time // the end of its lease
	changed int64
}

// lock locks the rows of a list that is worked on, and changes those of another list, which are leased. The leases end
// one after the other, and just before, their holders send changes, which wait for the lock. A change that gets its row
// after the end of the lease must change nothing: it comes after this transaction's change, and that after the lease. A
// row that was locked and not changed could be taken as changed before the lock. The list is unlocked right after the
// end of a lease, while tries that began before it still wait.
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
	for _, claim := range claims {
		for i := range claim.Entries {
			w.lateSent.Go(func() { w.sendLate(context.WithoutCancel(ctx), late, w.api.List(name), i, claim) })
		}
	}

	err = hold(locked, err)
	for _, claim := range claims {
		if left := time.Until(claim.Until); left > 0 {
			fault.Wait(ctx, left+lateAfter)
			break
		}
	}
	late.unlocked = time.Now()
	return err
}

// claimEach fills a list and claims its items.
func claimEach(ctx context.Context, list *api.List) (claims []api.Claim) {
	items := make([]string, lateClaims*lateItems)
	for i := range items {
		items[i] = fmt.Sprintf("%03d", i)
	}
	if _, err := list.Add(ctx, items...); err != nil {
		return nil
	}

	for i := range lateClaims {
		claim, err := list.Claim(ctx, lateItems, workLease+time.Duration(i)*lateEvery)
		if err == nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// sendLate sends a change of an item just before the end of its lease.
func (w *iidy) sendLate(ctx context.Context, late *lateLock, list *api.List, i int, claim api.Claim) {
	change := list.IncrementClaimed
	if i%2 == 0 {
		change = list.DeleteClaimed
	}
	before := lateBefore * time.Duration(lateItems-i) / lateItems

	fault.Wait(ctx, time.Until(claim.Until)-before)
	n, err := change(ctx, claim.ID, claim.Entries[i].Item)
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
