package postgres

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// rows are a table's values.
type rows map[string]int64

// apply does what addGroupSQL does: a change whose bounds the value breaks is
// left out.
func (r rows) apply(p *plan) []outcome {
	outcomes := make([]outcome, len(p.changes))
	for n, c := range p.changes {
		v, exists := r[c.id]
		lowest, highest := c.bounds()
		o := outcome{exists: exists, held: exists, value: v}
		if exists && v >= lowest && v <= highest {
			o.changed, o.value = true, v+c.sum
			r[c.id] = o.value
		}
		outcomes[n] = o
	}
	return outcomes
}

// model applies adds one after the other, as the domain promises, and holds the
// answers against it.
type model struct {
	t      *rapid.T
	values rows
	group  []add
}

func (m *model) accept(i int, answer coalesce.Answer[int64]) {
	v, exists := m.values[m.group[i].id]
	sum, fits := addInt64(v, m.group[i].delta)
	if !exists || !fits || answer.Err != nil || answer.Value != sum {
		m.t.Fatalf("add %d of %d to %d got %+v", i, m.group[i].delta, v, answer)
	}
	m.values[m.group[i].id] = sum
}

func (m *model) refuse(i int, answer coalesce.Answer[int64]) {
	v, exists := m.values[m.group[i].id]
	_, fits := addInt64(v, m.group[i].delta)
	want := counting.ErrOverflow
	if !exists {
		want = counting.ErrNotFound
	}
	if exists && fits || !errors.Is(answer.Err, want) {
		m.t.Fatalf("add %d of %d to %d got %+v", i, m.group[i].delta, v, answer)
	}
}

// TestPlanGivesWhatOneByOneWouldGive compares a group with its requests applied
// one after the other, near the edges of int64 above all.
func TestPlanGivesWhatOneByOneWouldGive(t *testing.T) {
	t.Parallel()
	edge := []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, 1, 2, -1, -2, -math.MaxInt64 / 2, -math.MaxInt64}
	rapid.Check(t, func(t *rapid.T) {
		starts := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 2, math.MinInt64 + 2}
		table := rows{"a": rapid.SampledFrom(starts).Draw(t, "a"), "b": rapid.SampledFrom(starts).Draw(t, "b")}
		group := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) add {
			return add{id: rapid.SampledFrom([]string{"a", "b", "absent"}).Draw(t, "id"), delta: rapid.SampledFrom(edge).Draw(t, "delta")}
		}), 1, 12).Draw(t, "group")
		m := &model{t: t, values: maps.Clone(table), group: group}

		p := newPlan(group)
		outcomes := table.apply(p)
		answers := make([]coalesce.Answer[int64], len(group))
		rests := p.settle(outcomes, answers)
		for n, c := range p.changes {
			for _, i := range c.callers {
				if outcomes[n].changed {
					m.accept(i, answers[i])
				}
			}
			for _, i := range slices.Concat(c.callers, c.rest) {
				if !outcomes[n].exists {
					m.refuse(i, answers[i])
				}
			}
		}
		for _, r := range rests {
			oneByOne(m, table, r, answers)
		}
		if !maps.Equal(table, m.values) {
			t.Fatalf("the table holds %v, one by one it would be %v", table, m.values)
		}
	})
}

// oneByOne works a rest off as applyRest does.
func oneByOne(m *model, table rows, r *rest, answers []coalesce.Answer[int64]) {
	for {
		before := slices.Clone(r.callers)
		done := r.done(m.group, answers)
		for _, i := range before {
			if !slices.Contains(r.callers, i) {
				m.refuse(i, answers[i])
			}
		}
		if done {
			return
		}
		first := r.callers[0]
		r.note(table.apply(newPlan(m.group[first : first+1]))[0], nil, answers)
		m.accept(first, answers[first]) // what did not fit was refused above
	}
}

// Between two statements of a rest somebody else may have changed or deleted the count.
func TestRestMeetsOthers(t *testing.T) {
	t.Parallel()
	group := []add{{"a", 1}, {"a", 2}, {"a", 3}}
	answers := make([]coalesce.Answer[int64], 3)
	r := &rest{callers: []int{0, 1, 2}, value: 10}
	r.note(outcome{exists: true, held: true, value: math.MaxInt64 - 2}, nil, answers)
	if !errors.Is(answers[0].Err, counting.ErrOverflow) {
		t.Errorf("not changed although held: %+v", answers[0])
	}
	if r.done(group, answers) || !errors.Is(answers[2].Err, counting.ErrOverflow) || answers[1].Err != nil {
		t.Errorf("at the edge: %+v", answers)
	}
	r.note(outcome{}, nil, answers)
	if !r.done(group, answers) || !errors.Is(answers[1].Err, counting.ErrNotFound) {
		t.Errorf("deleted: %+v", answers)
	}
}

func TestSettleTellsLockedFromMissing(t *testing.T) {
	t.Parallel()
	p := newPlan([]add{{"locked", 1}, {"missing", 1}, {"locked", 2}})
	answers := make([]coalesce.Answer[int64], 3)
	if rests := p.settle([]outcome{{exists: true}, {}}, answers); len(rests) != 0 {
		t.Errorf("to be applied one by one: %v", rests)
	}
	if !answers[0].Locked || !answers[2].Locked || answers[1].Locked || !errors.Is(answers[1].Err, counting.ErrNotFound) {
		t.Errorf("answers %+v", answers)
	}
}
