package postgres

import (
	"slices"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// part is what a statement applies as a whole or not at all: an update, or the adds of one count.
type part struct {
	update  *update // nil for adds
	members []int   // indexes into the group: of the update, or of the adds in order of arrival
	steps   []step
	counts  []int // the place of each step's count in the statement
	r       int   // the place of the first step in the statement
}

func (p *part) keyed() bool    { return p.update != nil && p.update.Key.Value != "" }
func (p *part) ofCaller() bool { return p.keyed() && p.update.Key.Caller != "" }
func (p *part) creates() bool  { return p.update != nil && p.update.Create }
func (p *part) wide() bool     { return p.update != nil && p.update.wide }

// statement is one sending of updatesSQL: its parts, and what came back.
type statement struct {
	parts     []*part // those with a key first, then those that create
	keyed     int     // steps of parts with a key
	single    bool    // all parts have one change and create nothing: singlesSQL
	callers   bool    // a part has a key of a caller
	alone     bool    // one part, whose overflow is found exactly
	ids       []string
	byID      map[string]int
	low, high []int64 // of each count: the sums of all steps' low and high

	id     uuid.UUID // of the journal's row
	values nullInts  // of each count before the statement
	locked map[int]bool
	taken  map[int]bool // the parts that have won their keys, by r; nil when it is not known
	starts nullInts     // before each step of the parts with a key, when they were applied
}

// plan returns a statement for the parts that fit together whatever subset of them is applied, as far as the sums of
// their steps tell, and the other parts. Of several callers' parts with one key it takes the first: all may take the
// same row.
func plan(parts []*part) (st *statement, rest []*part) {
	order := func(p *part) int {
		switch {
		case p.keyed():
			return 0
		case p.creates():
			return 1
		}
		return 2
	}
	parts = slices.SortedStableFunc(slices.Values(parts), func(a, b *part) int { return order(a) - order(b) })
	st = &statement{byID: make(map[string]int, len(parts)), single: true}
	ofCallers := slices.ContainsFunc(parts, (*part).ofCaller)
	var keys map[string]bool
	if ofCallers {
		keys = make(map[string]bool)
	}
	for _, p := range parts {
		again := p.keyed() && keys[p.update.Key.Value]
		if p.wide() || again || !st.add(p) {
			rest = append(rest, p)
			continue
		}
		if ofCallers && p.keyed() {
			keys[p.update.Key.Value] = true
		}
	}
	return st, rest
}

// planAlone returns a statement for one part.
func planAlone(p *part) *statement {
	st := &statement{byID: make(map[string]int, len(p.steps)), alone: true}
	p.counts = nil
	for _, s := range p.steps {
		p.counts = append(p.counts, st.place(s.id))
	}
	st.append(p)
	return st
}

// add adds a part, unless the sums leave int64.
func (st *statement) add(p *part) bool {
	p.counts = p.counts[:0]
	for _, s := range p.steps {
		i := st.place(s.id)
		_, low := addInt64(st.low[i], s.low)
		_, high := addInt64(st.high[i], s.high)
		if !low || !high {
			return false
		}
		p.counts = append(p.counts, i)
	}
	for n, s := range p.steps {
		st.low[p.counts[n]] += s.low
		st.high[p.counts[n]] += s.high
	}
	st.append(p)
	return true
}

func (st *statement) append(p *part) {
	p.r = 0
	if len(st.parts) > 0 {
		last := st.parts[len(st.parts)-1]
		p.r = last.r + len(last.steps)
	}
	st.parts = append(st.parts, p)
	st.single = st.single && len(p.steps) == 1 && !p.creates()
	st.callers = st.callers || p.ofCaller()
	if p.keyed() {
		st.keyed += len(p.steps)
	}
}

// place returns the place of a count in the statement.
func (st *statement) place(id string) int {
	i, ok := st.byID[id]
	if !ok {
		i = len(st.ids)
		st.byID[id] = i
		st.ids = append(st.ids, id)
		st.low, st.high = append(st.low, 0), append(st.high, 0)
	}
	return i
}

// fate says what became of a part.
type fate uint8

const (
	applied  fate = iota
	refused       // for good: outcome.err
	isLocked      // another transaction has count outcome.at
	unfit         // it may fit alone
	lost          // its key is taken, by an earlier request or by this statement when its answer got lost
)

// outcome is the fate of a part.
type outcome struct {
	fate   fate
	starts []int64 // applied: before each step
	err    error
	at     string // isLocked: the id
}

// outcomes returns what became of each part, in order. It repeats the statement's arithmetic with the values that the
// statement had, so that those without a key need no answer of their own.
func (st *statement) outcomes() []outcome {
	current := make([]int64, len(st.ids))
	for i, v := range st.values {
		current[i] = v.value
	}
	all := make([]outcome, len(st.parts))
	for n, p := range st.parts {
		o := st.outcome(p)
		if o.fate == applied {
			o.starts = make([]int64, len(p.steps))
			for j, s := range p.steps {
				o.starts[j] = current[p.counts[j]]
				current[p.counts[j]] += s.delta
			}
		}
		all[n] = o
	}
	return all
}

func (st *statement) outcome(p *part) outcome {
	missing := -1
	for n, i := range p.counts {
		switch {
		case st.values[i].valid:
		case st.locked[i]:
			return outcome{fate: isLocked, at: st.ids[i]}
		case missing < 0 && !p.creates():
			missing = p.steps[n].first
		}
	}
	switch {
	case p.keyed() && st.starts[p.r].valid:
		return outcome{}
	case p.keyed() && st.taken == nil, p.keyed() && st.decides(p, missing) && !st.taken[p.r]:
		return outcome{fate: lost}
	case missing >= 0:
		return outcome{fate: refused, err: p.refused(missing, counting.ErrNotFound)}
	case st.alone:
		if i := st.overflow(p); i >= 0 {
			return outcome{fate: refused, err: p.refused(i, counting.ErrOverflow)}
		}
		return outcome{}
	case !st.fits(p):
		return outcome{fate: unfit}
	}
	return outcome{}
}

// decides reports whether the statement has taken the key of a part, or found it taken.
func (st *statement) decides(p *part, missing int) bool {
	return missing >= 0 || st.alone || st.fits(p)
}

// fits reports whether all counts of a part have room for all parts of the statement.
func (st *statement) fits(p *part) bool {
	for _, i := range p.counts {
		lowest, highest := bounds(st.low[i], st.high[i])
		if v := st.values[i].value; v < lowest || v > highest {
			return false
		}
	}
	return true
}

// overflow returns the index of the first change of a part that leaves int64, or -1.
func (st *statement) overflow(p *part) int {
	current := make(map[int]int64, len(p.counts))
	for _, i := range p.counts {
		current[i] = st.values[i].value
	}
	for index, delta := range p.deltas() {
		i := p.counts[p.stepOf(index)]
		sum, ok := addInt64(current[i], delta)
		if !ok {
			return index
		}
		current[i] = sum
	}
	return -1
}

// deltas returns the changes of a part that is alone.
func (p *part) deltas() []int64 {
	if p.update == nil {
		return []int64{p.steps[0].delta}
	}
	deltas := make([]int64, len(p.update.Changes))
	for i, c := range p.update.Changes {
		deltas[i] = c.Delta
	}
	return deltas
}

func (p *part) stepOf(change int) int {
	if p.update == nil {
		return 0
	}
	return p.update.stepOf[change]
}

// refused returns the error of a part of which a change is refused.
func (p *part) refused(index int, err error) error {
	if p.update == nil {
		return err
	}
	return p.update.refused(index, err)
}
