package iidy

import (
	"cmp"
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/call"
	api "github.com/rowlock/rowlock/client/internal/iidyapi"
)

// ErrClaimLost means that a claim no longer holds an item: its lease expired before
// it was extended, or another caller deleted the item.
const ErrClaimLost rowlock.Code = "CLAIM_LOST"

// Items yields every entry of the list in byte order. It reads page after page, and
// ends after an error, which it yields.
func (l *List) Items(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		const size = 1000
		for after := ""; ; {
			page, err := l.Page(ctx, after, size)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, entry := range page {
				if !yield(entry, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			after = page[len(page)-1].Item
		}
	}
}

// Task holds an item that Work has claimed. It is valid only in the loop's body.
type Task struct {
	Entry

	claim *claim
}

// Work claims items, up to size at a time, and yields them one by one until none is
// free. The loop's body works on an item and then calls Done or Fail. Concurrent
// loops, in any processes, never work on the same item.
//
// Work extends a claim while the loop works on its items. So lease, one second to
// twelve hours, may be shorter than the work: it decides when the items of a dead worker
// are free again. If the claim is lost, the context of its tasks ends, and Work
// yields ErrClaimLost instead of its other items. Work ends after an error, which
// it yields.
//
// If the loop ends early, with items that are neither done nor failed, Work releases
// the claim. That also frees the claim's failed items at once; failed items of
// earlier claims are free when their leases expire.
func (l *List) Work(ctx context.Context, size int, lease time.Duration) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		for {
			var sent time.Time
			taken, err := l.Claim(call.Sent(ctx, &sent), size, lease)
			if err != nil {
				yield(Task{}, err)
				return
			}
			if taken.ID == "" || !l.work(ctx, taken, lease, sent.Add(lease), yield) {
				return
			}
		}
	}
}

// Context returns a context that ends with Work's context, or when the claim is
// lost. Its cause is then ErrClaimLost.
func (t Task) Context() context.Context { return t.claim.ctx }

// Done deletes the item. It returns ErrClaimLost if the claim no longer holds it:
// another worker may have done it too.
func (t Task) Done(ctx context.Context) error {
	return t.finish(func(l *List, id *uuid.UUID) (int64, error) {
		return deleted(l.api.DeleteItem(ctx, l.name, call.Segment(t.Item), &api.DeleteItemParams{Claim: id}))
	})
}

// Fail counts a failed attempt. The item stays claimed until the lease expires after
// its last extension, which is the delay before the next attempt. It returns
// ErrClaimLost like Done.
func (t Task) Fail(ctx context.Context) error {
	return t.finish(func(l *List, id *uuid.UUID) (int64, error) {
		return incremented(l.api.IncrementItem(ctx, l.name, call.Segment(t.Item), &api.IncrementItemParams{Claim: id}))
	})
}

func (t Task) finish(change func(l *List, id *uuid.UUID) (int64, error)) error {
	id, err := parse(t.claim.id)
	if err != nil {
		return err
	}

	// Before the change: extend must not consider a claim lost because its last item is done.
	t.claim.open.Add(-1)

	changed, err := change(t.claim.list, id)
	if err == nil && changed == 0 {
		err = lost("The claim no longer holds the item.")
	}
	if err != nil {
		t.claim.open.Add(1)
	}
	return err
}

func lost(detail string) error { return &rowlock.Error{Code: ErrClaimLost, Detail: detail} }

// claim is a claim while its items are worked on.
type claim struct {
	list *List
	id   string
	ctx  context.Context
	lose context.CancelCauseFunc
	open atomic.Int64 // items that are not done or failed, and not about to be
}

// work yields the claim's items while it extends the claim, and reports whether to claim more.
func (l *List) work(
	ctx context.Context, taken Claim, lease time.Duration, until time.Time, yield func(Task, error) bool,
) (more bool) {
	c := &claim{list: l, id: taken.ID}
	c.open.Store(int64(len(taken.Entries)))
	c.ctx, c.lose = context.WithCancelCause(ctx)

	var extending sync.WaitGroup
	extending.Go(func() { c.extend(lease, until) })
	defer func() {
		c.lose(nil)
		extending.Wait()
		if !more && c.open.Load() > 0 {
			c.release(ctx)
		}
	}()

	for _, entry := range taken.Entries {
		if cause := context.Cause(c.ctx); cause != nil {
			yield(Task{}, cause)
			return false
		}
		if !yield(Task{entry, c}, nil) {
			return false
		}
	}

	return true
}

// extend extends the claim three times per lease until its context ends. It ends the
// context when the claim holds nothing, and at until, when the lease expires by this
// machine's clock.
func (c *claim) extend(lease time.Duration, until time.Time) {
	var why error // the first failure since the last extension
	begun := until.Add(-lease)
	for {
		waited := call.Sleep(c.ctx, time.Until(earlier(begun.Add(lease/3), until)))
		if !waited {
			return
		}

		begun = time.Now()
		if !begun.Before(until) {
			c.lose(cmp.Or(why, lost("The lease expired before the claim was extended.")))
			return
		}

		// Give up before the lease expires, so that another attempt can follow.
		var sent time.Time
		ctx, cancel := context.WithDeadline(c.ctx, earlier(begun.Add(lease/3), until))
		held, err := c.list.Extend(call.Sent(ctx, &sent), c.id, lease)
		cancel()

		switch {
		case err != nil && why == nil:
			why = &rowlock.Error{Code: ErrClaimLost, Detail: "The claim could not be extended: " + err.Error(), Err: err}
		case err == nil && held == 0 && c.open.Load() > 0:
			c.lose(lost("The claim no longer holds any item."))
			return
		case err == nil:
			until, why = sent.Add(lease), nil
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// release frees what the claim holds, even after its context has ended. If it fails,
// the items are free when the lease expires.
func (c *claim) release(ctx context.Context) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	_, _ = c.list.Release(ctx, c.id)
}
