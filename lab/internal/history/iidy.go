package history

import (
	"fmt"
	"time"
)

// ItemVerb says what is done to the items of a list.
type ItemVerb string

// The verbs. From ItemPage on they concern every item of the list.
const (
	ItemAdd       ItemVerb = "add"
	ItemIncrement ItemVerb = "increment"
	ItemDelete    ItemVerb = "delete"
	ItemPage      ItemVerb = "page"
	ItemClaim     ItemVerb = "claim"
	ItemExtend    ItemVerb = "extend"
	ItemRelease   ItemVerb = "release"
)

// OfList reports whether the verb concerns every item of the list.
func (v ItemVerb) OfList() bool {
	return v == ItemPage || v == ItemClaim || v == ItemExtend || v == ItemRelease
}

// ItemInput describes an operation on a set of a list's items.
type ItemInput struct {
	Verb  ItemVerb
	Items uint8  // a bit for each
	Claim string // that a change names, if any
	Count int    // of items that a claim takes
}

// Absent is the number of attempts of an item that is not there.
const Absent = -1

// ItemOutput holds what an answer says about one item: its attempts, by a page or by the
// claim that took it; 1 or 0 by a change.
type ItemOutput struct {
	N     int64
	Known bool          // false where a batch's number says nothing about a single item
	Claim string        // that took the item
	Until time.Duration // the end of its lease
}

// item holds the state of one item: its attempts and the claim that has it. The lease
// ends between low and high, which are equal where the answer to the claim was seen.
type item struct {
	attempts  int64
	claim     string
	low, high time.Duration
}

// Items returns the model of an iidy item that is absent at first; claims hold it for
// lease. When a lease ends during an operation, the operation may find it alive or not,
// so two states may follow.
//
// The promise is one for each item, not for a list: a batch commits as a whole, but
// reaches its items one after the other, and may see what others commit meanwhile for
// one item and not for another (READ COMMITTED). So a batch is recorded for each of its
// items.
func Items(lease time.Duration) Model {
	return newModel(item{attempts: Absent}, func(s item, in ItemInput, op Op) []item {
		return in.step(s, op, lease)
	})
}

func (in ItemInput) step(s item, op Op, lease time.Duration) (after []item) {
	out, _ := op.Output.(ItemOutput)
	if op.Outcome == Unknown {
		out, op.Return = ItemOutput{}, Never // it may take effect at any time
	}
	there := s.attempts != Absent
	// allow adds a state that follows an answer of n.
	allow := func(possible bool, n int64, state item) {
		if possible && (!out.Known || out.N == n) {
			after = append(after, state)
		}
	}
	switch in.Verb {
	case ItemPage:
		allow(true, s.attempts, s)
	case ItemAdd:
		allow(!there, 1, item{})
		allow(there, 0, s)
	case ItemIncrement, ItemDelete, ItemExtend, ItemRelease:
		changes, skips := there, !there
		if in.Claim != "" {
			changes, skips = there && in.mayHold(s, op), !there || !in.surelyHolds(s, op)
		}
		allow(changes, 1, in.change(s, op, lease))
		allow(skips, 0, s)
	case ItemClaim:
		free := there && (s.claim == "" || op.Return >= s.low-ClockSlack)
		switch {
		case out.Claim != "":
			allow(free, s.attempts, item{s.attempts, out.Claim, out.Until, out.Until})
		case out.Known: // a claim passes over what is locked at the moment, so an item may be left without a cause
			after = append(after, s)
		default:
			allow(true, 0, s)
			allow(free, 0, item{s.attempts, fmt.Sprint("lost at ", op.Call), op.Call + lease, Never})
		}
	}
	return after
}

// change returns the item after the operation has changed it.
func (in ItemInput) change(s item, op Op, lease time.Duration) item {
	switch in.Verb {
	case ItemIncrement:
		s.attempts++
	case ItemDelete:
		s = item{attempts: Absent}
	case ItemExtend:
		s.low, s.high = op.Call+lease, Never
		if op.Return != Never {
			s.high = op.Return + lease
		}
	case ItemRelease:
		s.claim, s.low, s.high = "", 0, 0
	case ItemAdd, ItemPage, ItemClaim:
	}
	return s
}

// mayHold reports whether the operation's claim may have held the item at some time of
// the operation.
func (in ItemInput) mayHold(s item, op Op) bool {
	return s.claim == in.Claim && (s.high == Never || op.Call <= s.high+ClockSlack)
}

// surelyHolds reports whether the claim held the item during the whole operation.
func (in ItemInput) surelyHolds(s item, op Op) bool {
	return s.claim == in.Claim && op.Return < s.low-ClockSlack
}
