package prove

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// itemVerb says what is done to the items of a list.
type itemVerb string

// The verbs. From itemPage on they concern every item of the list.
const (
	itemAdd       itemVerb = "add"
	itemIncrement itemVerb = "increment"
	itemDelete    itemVerb = "delete"
	itemPage      itemVerb = "page"
	itemClaim     itemVerb = "claim"
	itemExtend    itemVerb = "extend"
	itemRelease   itemVerb = "release"
)

// itemInput describes an operation on some of a list's items.
type itemInput struct {
	verb  itemVerb
	items []string // none for all
	claim string   // that a change names, if any
	count int      // of items that a claim takes
}

// absent is the number of attempts of an item that is not there.
const absent = -1

// itemOutput holds what an answer says about one item: its attempts, by a page or by the
// claim that took it; 1 or 0 by a change.
type itemOutput struct {
	n     int64
	known bool          // false where a batch's number says nothing about a single item
	claim string        // that took the item
	until time.Duration // the end of its lease
}

// item holds the state of one item: its attempts and the claim that has it. The lease
// ends between low and high, which are equal where the answer to the claim was seen.
type item struct {
	attempts  int64
	claim     string
	low, high time.Duration
}

// itemModel returns the model of an iidy item that is absent at first; claims hold it for
// workLease. When a lease ends during an operation, the operation may find it alive or
// not, so two states may follow.
//
// The promise is one for each item, not for a list: a batch commits as a whole, but
// reaches its items one after the other, and may see what others commit meanwhile for
// one item and not for another (READ COMMITTED). So a batch is recorded for each of its
// items.
func itemModel() porcupine.Model { return history.NewModel(item{attempts: absent}, item.after) }

// after returns the states that may follow the operation.
func (s item) after(in itemInput, op history.Op) (after []item) {
	out, _ := op.Output.(itemOutput)
	switch op.Outcome {
	case targets.Refused:
		return []item{s}
	case targets.Unknown:
		out, op.Return = itemOutput{}, history.Never // it may take effect at any time
	case targets.OK, targets.NotApplied:
	}
	there := s.attempts != absent
	// allow adds a state that follows an answer of n.
	allow := func(possible bool, n int64, state item) {
		if possible && (!out.known || out.n == n) {
			after = append(after, state)
		}
	}
	switch in.verb {
	case itemPage:
		allow(true, s.attempts, s)
	case itemAdd:
		allow(!there, 1, item{})
		allow(there, 0, s)
	case itemClaim:
		free := there && (s.claim == "" || op.Return >= s.low-history.ClockSlack)
		switch {
		case out.claim != "":
			allow(free, s.attempts, item{s.attempts, out.claim, out.until, out.until})
		case out.known: // a claim passes over what is locked at the moment, so an item may be left without a cause
			after = append(after, s)
		default:
			allow(true, 0, s)
			allow(free, 0, item{s.attempts, fmt.Sprint("lost at ", op.Call), op.Call + workLease, history.Never})
		}
	case itemIncrement, itemDelete, itemExtend, itemRelease:
		mayReach, surelyReaches := there, there
		if in.claim != "" {
			holds := there && s.claim == in.claim
			mayReach = holds && op.Call-history.ClockSlack <= s.high
			surelyReaches = holds && op.Return < s.low-history.ClockSlack
		}
		allow(mayReach, 1, s.changed(in.verb, op))
		allow(!surelyReaches, 0, s)
	}
	return after
}

// changed returns the item after an operation that has reached it.
func (s item) changed(verb itemVerb, op history.Op) item {
	switch verb {
	case itemIncrement:
		s.attempts++
	case itemDelete:
		s = item{attempts: absent}
	case itemExtend:
		s.low, s.high = op.Call+workLease, history.Never
		if op.Return != history.Never {
			s.high = op.Return + workLease
		}
	case itemRelease:
		s.claim, s.low, s.high = "", 0, 0
	case itemAdd, itemPage, itemClaim:
	}
	return s
}
