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

// ErrClaimLost means that a claim holds an item no longer: its lease ran out,
// because it could not be extended, or another caller deleted the item.
const ErrClaimLost rowlock.Code = "CLAIM_LOST"

// Items yields every entry of the list in the order of the items' bytes, reading
// page after page. After an error, which it yields, it ends.
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

// Task holds an item that Work has claimed. It may be used in the loop's body only.
type Task struct {
	Entry

	claim *claim
}

// Work claims items, up to size at a time, and yields one after the other until
// none is free. The loop's body works on an item and then calls Done or Fail.
// Several loops at once, in any processes, never work on one item.
//
// While a loop works on the items of a claim, the claim is extended. So lease, one
// second to twelve hours, need not be longer than the work: it is how long the
// items of a worker that dies stay claimed. When the claim is lost, the context of
// its tasks ends, its other items are not yielded, and ErrClaimLost is. After an
// error, which it yields, Work ends.
//
// A loop that is left while items are neither done nor failed releases the claim;
// its failed items are free at once then, too. Such an item of an earlier claim is
// free again when its lease has run out.
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

// Context returns a context that ends with that of Work, and when the claim is
// lost. Its cause is ErrClaimLost then.
func (t Task) Context() context.Context { return t.claim.ctx }

// Done deletes the item. It returns ErrClaimLost when the claim does not hold it
// any more: another worker may have done it as well.
func (t Task) Done(ctx context.Context) error {
	return t.finish(func(l *List, id *uuid.UUID) (int64, error) {
		return deleted(l.api.DeleteItem(ctx, l.name, call.Segment(t.Item), &api.DeleteItemParams{Claim: id}))
	})
}

// Fail counts a failed attempt. The item stays claimed until the lease runs out
// after its last extension, which is the delay before it is tried again. It
// returns ErrClaimLost as Done does.
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
	t.claim.open.Add(-1) // before the change: extend must not take a claim for lost because its last item is done
	changed, err := change(t.claim.list, id)
	if err == nil && changed == 0 {
		err = lost("The claim does not hold the item any more.")
	}
	if err != nil {
		t.claim.open.Add(1)
	}
	return err
}

func lost(detail string) error { return &rowlock.Error{Code: ErrClaimLost, Detail: detail} }

// claim holds a claim that is worked on.
type claim struct {
	list *List
	id   string
	ctx  context.Context //nolint:containedctx // that of the work on its items, which the tasks hand on
	lose context.CancelCauseFunc
	open atomic.Int64 // items that are neither done nor failed, nor about to be
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

// extend extends the claim three times a lease until its context ends. It ends
// that itself when the claim holds nothing, and at until, when the lease runs out
// by this machine's clock without another extension.
func (c *claim) extend(lease time.Duration, until time.Time) {
	var why error // of the first failure since an extension
	for begun := until.Add(-lease); ; {
		if !call.Sleep(c.ctx, time.Until(earlier(begun.Add(lease/3), until))) {
			return
		}
		if begun = time.Now(); !begun.Before(until) {
			c.lose(cmp.Or(why, lost("The lease ran out before the claim was extended.")))
			return
		}
		var sent time.Time
		// Not until the end of the lease, so that another one can follow when the answer does not come.
		ctx, cancel := context.WithDeadline(c.ctx, earlier(begun.Add(lease/3), until))
		held, err := c.list.Extend(call.Sent(ctx, &sent), c.id, lease)
		cancel()
		switch {
		case err != nil && why == nil:
			why = &rowlock.Error{Code: ErrClaimLost, Detail: "The claim could not be extended: " + err.Error(), Err: err}
		case err == nil && held == 0 && c.open.Load() > 0:
			c.lose(lost("The claim holds no item any more."))
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

// release frees what the claim holds, also when its context has ended. When it
// fails, the lease runs out.
func (c *claim) release(ctx context.Context) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	_, _ = c.list.Release(ctx, c.id)
}
