package postgres

import (
	"math"
	"slices"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// add is one caller's change of one count.
type add struct {
	id    string
	delta int64
}

// addOverheadBytes is what an add takes on the wire beside its id: three
// integers as digits and their separators.
const addOverheadBytes = 64

// change is what one group does to one count: its callers' deltas as a sum.
type change struct {
	id      string
	sum     int64
	low     int64 // the lowest running sum on the way, at most 0
	high    int64 // the highest one, at least 0
	callers []int // indexes into the group, in order of arrival
	rest    []int // those after them, whose sum would not fit into int64
}

// bounds are the current values from which every caller's step stays in int64.
func (c *change) bounds() (lowest, highest int64) {
	return math.MinInt64 - c.low, math.MaxInt64 - c.high
}

// plan is a group sorted out by id.
type plan struct {
	group   []add
	changes []*change
}

func newPlan(group []add) *plan {
	p := &plan{group: group}
	byID := make(map[string]*change, len(group))
	for i, a := range group {
		c, ok := byID[a.id]
		if !ok {
			c = &change{id: a.id}
			byID[a.id] = c
			p.changes = append(p.changes, c)
		}
		sum, ok := addInt64(c.sum, a.delta)
		if !ok || len(c.rest) > 0 {
			// What was summed up so far stays a group; the rest follows one by
			// one, in order of arrival.
			c.rest = append(c.rest, i)
			continue
		}
		c.sum, c.low, c.high = sum, min(c.low, sum), max(c.high, sum)
		c.callers = append(c.callers, i)
	}
	return p
}

func addInt64(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (sum > a) == (b > 0)
}

// share gives each caller of c the value that it would have got had the deltas
// been applied one after the other, given the value after all of them.
func (c *change) share(group []add, final int64, answers []coalesce.Answer[int64]) {
	value := final - c.sum
	for _, i := range c.callers {
		value += group[i].delta
		answers[i].Value = value
	}
}

// arrays are the statement's parameters: one element per change.
func (p *plan) arrays() (ids []string, sums, lowest, highest []int64) {
	for _, c := range p.changes {
		lo, hi := c.bounds()
		ids, sums = append(ids, c.id), append(sums, c.sum)
		lowest, highest = append(lowest, lo), append(highest, hi)
	}
	return ids, sums, lowest, highest
}

// outcome is what the statement says about one change. The zero value says that
// it found no row.
type outcome struct {
	exists, held, changed bool
	// value is the row's when it is held: after the change, or as it stands.
	value int64
}

// settle turns outcomes, one per change, into answers. It returns the adds that
// are yet to be applied one by one.
func (p *plan) settle(outcomes []outcome, answers []coalesce.Answer[int64]) []*rest {
	var rests []*rest
	for n, c := range p.changes {
		o := outcomes[n]
		if o.changed {
			c.share(p.group, o.value, answers)
		}
		r := &rest{callers: c.rest, value: o.value}
		if !o.changed {
			r.callers = slices.Concat(c.callers, c.rest)
		}
		switch {
		case !o.exists:
			r.refuse(counting.ErrNotFound, answers)
		case !o.held:
			r.postpone(answers)
		case len(r.callers) > 0:
			rests = append(rests, r)
		}
	}
	return rests
}
