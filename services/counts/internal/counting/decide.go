package counting

import (
	"maps"
	"slices"
	"time"
)

// State holds the counts and keys that a group of requests names, as read after the counts were locked.
type State struct {
	// Values has the counts that exist.
	Values map[ItemID]int64
	// Locked has the counts that another transaction has locked; their values are unknown.
	Locked map[ItemID]bool
	// Keys has the keys that are taken.
	Keys map[KeyID]Taken
	// Now is the database's time.
	Now time.Time
}

// KeyID names a caller's key.
type KeyID struct{ Caller, Value string }

// Taken is the first request with a key.
type Taken struct {
	Fingerprint [16]byte
	Answer      Answer
}

// Decision holds the answers to a group of requests, and the writes that make them true.
type Decision struct {
	// Answers has one element for each request.
	Answers []Answer
	// Writes has one element for each count that is changed, in byte order.
	Writes []Write
	// Keys has the keys that the requests take.
	Keys map[KeyID]Taken
}

// Write is the change of one count in the database.
type Write struct {
	ItemID ItemID
	Kind   WriteKind
	// Value is the count afterwards.
	Value int64
	// By is the sum of what was added, for AddTo.
	By int64
}

// WriteKind says how a count is written.
type WriteKind uint8

// The kinds of writes. AddTo adds By to the stored value. Replace stores Value: the count was set, or the sum of the
// adds overflows although the value does not.
const (
	AddTo WriteKind = iota
	Replace
	Insert
	Remove
)

// Decide applies requests one after the other. It is pure: the repository locks the counts, reads the state, and writes
// the decision in one transaction.
//
// A request whose key is taken, in the state or by an earlier request, gets the first answer; it is refused if its
// fingerprint differs. A key that was taken without a Caller is taken for all callers. A request for a locked count is
// held up and takes no key. A refusal takes the key just as an applied change does.
func Decide(requests []Request, s State) Decision {
	d := decider{State: s, counts: make(map[ItemID]*count, len(s.Values)), taken: make(map[KeyID]Taken)}
	for id, value := range s.Values {
		d.counts[id] = &count{existed: true, exists: true, value: value}
	}

	answers := make([]Answer, len(requests))
	for i, r := range requests {
		answers[i] = d.decide(r)
	}
	return Decision{Answers: answers, Writes: d.writes(), Keys: d.taken}
}

// decider holds the state while requests are applied to it.
type decider struct {
	State

	counts map[ItemID]*count // those that exist, or existed before
	taken  map[KeyID]Taken   // by these requests
}

// count is one count while requests are applied.
type count struct {
	existed, exists bool
	value           int64
	changed         bool
	replaced        bool  // the value is not the stored one plus by
	by              int64 // the sum of what was added
}

// decide applies one request, unless its key is taken or one of its counts is locked.
func (d *decider) decide(r Request) Answer {
	if first, taken := d.first(r.Key); taken {
		return first.repeated(r.Key)
	}
	if i := slices.IndexFunc(r.Changes, func(c Change) bool { return d.Locked[c.ItemID] }); i >= 0 {
		return Answer{HeldUp: true, Index: i}
	}

	a := d.apply(r)
	if r.Key.Value != "" {
		d.taken[KeyID{r.Key.Caller, r.Key.Value}] = Taken{Fingerprint: r.Key.Fingerprint, Answer: a}
	}
	return a
}

// first returns the first request with a key.
func (d *decider) first(k Key) (Taken, bool) {
	for _, id := range k.Candidates() {
		if t, ok := d.taken[id]; ok {
			return t, true
		}
		if t, ok := d.Keys[id]; ok {
			return t, true
		}
	}
	return Taken{}, false
}

// Candidates returns the names under which a key may have been taken: with its caller, and without one. The zero Key
// has none.
func (k Key) Candidates() []KeyID {
	switch {
	case k.Value == "":
		return nil
	case k.Caller == "":
		return []KeyID{{Value: k.Value}}
	}
	return []KeyID{{k.Caller, k.Value}, {Value: k.Value}}
}

// repeated returns the answer to a later request with the key.
func (t Taken) repeated(k Key) Answer {
	if t.Fingerprint != k.Fingerprint {
		return Answer{Refusal: refusedKey}
	}
	a := t.Answer
	a.Replayed = true
	return a
}

// apply applies all of one request, or refuses it and changes nothing.
func (d *decider) apply(r Request) Answer {
	if r.Operation == Add {
		return d.add(r)
	}

	only := r.Changes[0]
	c := d.counts[only.ItemID]
	exists := c != nil && c.exists
	switch {
	case r.Operation == Create && exists:
		return Answer{Refusal: refusedExists}
	case r.Operation != Create && !exists:
		return Answer{Refusal: refusedMissing}
	case c == nil:
		c = new(count)
		d.counts[only.ItemID] = c
	}

	c.changed, c.replaced, c.exists = true, true, r.Operation != Delete
	if !c.exists {
		return Answer{At: d.Now}
	}
	c.value = only.Delta
	return Answer{Values: []int64{c.value}, At: d.Now}
}

// add applies the changes of a request one after the other. A missing count is reported before an overflow.
func (d *decider) add(r Request) Answer {
	after := make(map[ItemID]int64, len(r.Changes))
	for i, c := range r.Changes {
		held := d.counts[c.ItemID]
		switch {
		case held != nil && held.exists:
			after[c.ItemID] = held.value
		case r.CreateMissing:
			after[c.ItemID] = 0
		default:
			return Answer{Refusal: refusedMissing, Index: i}
		}
	}

	values := make([]int64, len(r.Changes))
	for i, c := range r.Changes {
		sum, fits := Sum(after[c.ItemID], c.Delta)
		if !fits {
			return Answer{Refusal: refusedOverflow, Index: i}
		}
		after[c.ItemID], values[i] = sum, sum
	}

	for _, c := range r.Changes {
		d.addTo(c)
	}
	return Answer{Values: values, At: d.Now}
}

// addTo applies a change that does not overflow.
func (d *decider) addTo(change Change) {
	c := d.counts[change.ItemID]
	if c == nil {
		c = new(count)
		d.counts[change.ItemID] = c
	}
	if !c.exists { // create it
		c.exists, c.value, c.replaced = true, 0, true
	}

	by, fits := Sum(c.by, change.Delta)
	c.changed, c.replaced = true, c.replaced || !fits
	c.by, c.value = by, c.value+change.Delta
}

// Sum returns a + b and whether it fits into int64.
func Sum(a, b int64) (sum int64, fits bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

// writes returns the writes for the counts that the requests have changed.
func (d *decider) writes() []Write {
	all := make([]Write, 0, len(d.counts))
	for _, id := range slices.Sorted(maps.Keys(d.counts)) {
		c := d.counts[id]
		w := Write{ItemID: id, Value: c.value, By: c.by}
		switch {
		case !c.changed, !c.existed && !c.exists:
			continue
		case !c.existed:
			w.Kind = Insert
		case !c.exists:
			w.Kind = Remove
		case c.replaced:
			w.Kind = Replace
		}
		all = append(all, w)
	}
	return all
}
