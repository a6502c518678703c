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

// apply does what addGroupSQL does: it leaves out a sum whose bounds the value breaks.
func (r rows) apply(sums []*itemSum) []result {
	results := make([]result, len(sums))
	for n, c := range sums {
		v, exists := r[c.id]
		lowest, highest := c.bounds()
		o := result{exists: exists, held: exists, value: v}
		if exists && v >= lowest && v <= highest {
			o.changed, o.value = true, v+c.delta
			r[c.id] = o.value
		}
		results[n] = o
	}
	return results
}

// model applies adds one after the other, as the domain promises, and compares the answers.
type model struct {
	t      *rapid.T
	values rows
	group  []request
}

func (m *model) accept(i int, answer coalesce.Answer[reply]) {
	v, exists := m.values[m.group[i].id]
	sum, fits := addInt64(v, m.group[i].delta)
	if !exists || !fits || answer.Err != nil || answer.Value.value != sum {
		m.t.Fatalf("add %d of %d to %d got %+v", i, m.group[i].delta, v, answer)
	}
	m.values[m.group[i].id] = sum
}

func (m *model) refuse(i int, answer coalesce.Answer[reply]) {
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

// TestGroupGivesWhatOneByOneWouldGive compares a group with its requests applied
// one after the other, near the edges of int64 above all.
func TestGroupGivesWhatOneByOneWouldGive(t *testing.T) {
	t.Parallel()
	edge := []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, 1, 2, -1, -2, -math.MaxInt64 / 2, -math.MaxInt64}
	rapid.Check(t, func(t *rapid.T) {
		starts := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 2, math.MinInt64 + 2}
		table := rows{"a": rapid.SampledFrom(starts).Draw(t, "a"), "b": rapid.SampledFrom(starts).Draw(t, "b")}
		group := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) request {
			return request{add: add{
				id:    rapid.SampledFrom([]string{"a", "b", "absent"}).Draw(t, "id"),
				delta: rapid.SampledFrom(edge).Draw(t, "delta"),
			}}
		}), 1, 12).Draw(t, "group")
		m := &model{t: t, values: maps.Clone(table), group: group}

		sums := sumByItem(group)
		results := table.apply(sums)
		answers := make([]coalesce.Answer[reply], len(group))
		leftovers := distribute(group, sums, results, answers)
		for n, c := range sums {
			for _, i := range c.callers {
				if results[n].changed {
					m.accept(i, answers[i])
				}
			}
			for _, i := range slices.Concat(c.callers, c.rest) {
				if !results[n].exists {
					m.refuse(i, answers[i])
				}
			}
		}
		for _, l := range leftovers {
			oneByOne(m, table, l, answers)
		}
		if !maps.Equal(table, m.values) {
			t.Fatalf("the table holds %v, one by one it would be %v", table, m.values)
		}
	})
}

// oneByOne works leftovers off as addOneByOne does.
func oneByOne(m *model, table rows, l *leftover, answers []coalesce.Answer[reply]) {
	for {
		before := slices.Clone(l.callers)
		l.refuseOverflows(m.group, answers)
		for _, i := range before {
			if !slices.Contains(l.callers, i) {
				m.refuse(i, answers[i])
			}
		}
		if len(l.callers) == 0 {
			return
		}
		first := l.callers[0]
		l.answerFirst(table.apply(sumByItem(m.group[first : first+1]))[0], nil, answers)
		m.accept(first, answers[first]) // what did not fit was refused above
	}
}

// Between two statements another transaction may have changed or deleted the count.
func TestLeftoverOfACountThatChanged(t *testing.T) {
	t.Parallel()
	group := []request{{add: add{"a", 1}}, {add: add{"a", 2}}, {add: add{"a", 3}}}
	answers := make([]coalesce.Answer[reply], 3)
	l := &leftover{callers: []int{0, 1, 2}, value: 10}
	l.answerFirst(result{exists: true, held: true, value: math.MaxInt64 - 2}, nil, answers)
	if !errors.Is(answers[0].Err, counting.ErrOverflow) {
		t.Errorf("locked but not changed: %+v", answers[0])
	}
	l.refuseOverflows(group, answers)
	if len(l.callers) != 1 || !errors.Is(answers[2].Err, counting.ErrOverflow) || answers[1].Err != nil {
		t.Errorf("at the edge: %+v", answers)
	}
	l.answerFirst(result{}, nil, answers)
	if len(l.callers) != 0 || !errors.Is(answers[1].Err, counting.ErrNotFound) {
		t.Errorf("deleted: %+v", answers)
	}
}

func TestLockedIsNotMissing(t *testing.T) {
	t.Parallel()
	group := []request{{add: add{"locked", 1}}, {add: add{"missing", 1}}, {add: add{"locked", 2}}}
	answers := make([]coalesce.Answer[reply], 3)
	if left := distribute(group, sumByItem(group), []result{{exists: true}, {}}, answers); len(left) != 0 {
		t.Errorf("left to be applied one by one: %v", left)
	}
	if !answers[0].Locked || !answers[2].Locked || answers[1].Locked || !errors.Is(answers[1].Err, counting.ErrNotFound) {
		t.Errorf("answers %+v", answers)
	}
}
