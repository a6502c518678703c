package postgres

import (
	"math"

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
}

// bounds are the current values from which every caller's step stays in int64.
func (c *change) bounds() (lowest, highest int64) {
	return math.MinInt64 - c.low, math.MaxInt64 - c.high
}

// plan is a group sorted out by id.
type plan struct {
	group   []add
	changes []*change
	// alone are the indexes of adds whose sum would not fit into int64; they
	// are applied one by one, where the database decides about each.
	alone []int
}

func newPlan(group []add) *plan {
	p := &plan{group: group}
	byID := make(map[string]*change, len(group))
	overflown := make(map[string]bool)
	for i, a := range group {
		if overflown[a.id] {
			p.alone = append(p.alone, i)
			continue
		}
		c, ok := byID[a.id]
		if !ok {
			c = &change{id: a.id}
			byID[a.id] = c
			p.changes = append(p.changes, c)
		}
		sum, ok := addInt64(c.sum, a.delta)
		if !ok {
			// The rest of this id follows one by one, in order of arrival; what
			// was summed up so far stays a group.
			overflown[a.id] = true
			p.alone = append(p.alone, i)
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

// refuse gives all callers of c one error.
func (c *change) refuse(err error, answers []coalesce.Answer[int64]) {
	for _, i := range c.callers {
		answers[i].Err = err
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
	value                 int64
}

// settle turns outcomes, one per change, into answers. It returns the indexes of
// adds that are yet to be applied one by one.
func (p *plan) settle(outcomes []outcome, answers []coalesce.Answer[int64]) []int {
	var alone []int
	for n, c := range p.changes {
		switch o := outcomes[n]; {
		case !o.exists:
			c.refuse(counting.ErrNotFound, answers)
		case !o.held:
			for _, i := range c.callers {
				answers[i].Locked = true
			}
		case o.changed:
			c.share(p.group, o.value, answers)
		case len(c.callers) == 1:
			c.refuse(counting.ErrOverflow, answers)
		default:
			alone = append(alone, c.callers...)
		}
	}
	return append(alone, p.alone...)
}
