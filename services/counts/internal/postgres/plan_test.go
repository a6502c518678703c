package postgres

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// database applies a plan as addGroupSQL does: a change whose bounds the value
// breaks is left out.
func database(values map[string]int64, p *plan) []outcome {
	outcomes := make([]outcome, len(p.changes))
	for n, c := range p.changes {
		v, exists := values[c.id]
		lowest, highest := c.bounds()
		outcomes[n] = outcome{exists: exists, held: exists}
		if exists && v >= lowest && v <= highest {
			values[c.id] = v + c.sum
			outcomes[n].changed, outcomes[n].value = true, v+c.sum
		}
	}
	return outcomes
}

// TestPlanGivesWhatOneByOneWouldGive compares a group with its requests applied
// one after the other, near the edges of int64 above all.
func TestPlanGivesWhatOneByOneWouldGive(t *testing.T) {
	t.Parallel()
	edge := []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, 1, 2, -1, -2, -math.MaxInt64 / 2, -math.MaxInt64}
	rapid.Check(t, func(t *rapid.T) {
		starts := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 2, math.MinInt64 + 2}
		grouped := map[string]int64{
			"a": rapid.SampledFrom(starts).Draw(t, "a"),
			"b": rapid.SampledFrom(starts).Draw(t, "b"),
		}
		begin := map[string]int64{"a": grouped["a"], "b": grouped["b"]}
		group := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) add {
			return add{id: rapid.SampledFrom([]string{"a", "b", "absent"}).Draw(t, "id"), delta: rapid.SampledFrom(edge).Draw(t, "delta")}
		}), 1, 12).Draw(t, "group")

		p := newPlan(group)
		answers := make([]coalesce.Answer[int64], len(group))
		order := inOrder(p, len(group))
		alone := p.settle(database(grouped, p), answers)
		for _, i := range alone {
			single := newPlan(group[i : i+1])
			one := make([]coalesce.Answer[int64], 1)
			if rest := single.settle(database(grouped, single), one); len(rest) != 0 {
				t.Fatalf("a single add is not settled: %v", rest)
			}
			answers[i] = one[0]
		}
		checkOneByOne(t, begin, grouped, group, answers, order)
	})
}

// inOrder is the order in which a plan's adds take effect: the summed ones, then
// those applied alone.
func inOrder(p *plan, n int) []int {
	var order []int
	for _, c := range p.changes {
		order = append(order, c.callers...)
	}
	order = append(order, p.alone...)
	if len(order) != n {
		panic("an add is missing from its plan")
	}
	return order
}

func checkOneByOne(t *rapid.T, values, grouped map[string]int64, group []add, answers []coalesce.Answer[int64], order []int) {
	for _, i := range order {
		a := group[i]
		v, exists := values[a.id]
		sum, fits := addInt64(v, a.delta)
		switch {
		case !exists:
			if !errors.Is(answers[i].Err, counting.ErrNotFound) {
				t.Fatalf("add %d to an absent id got %+v", i, answers[i])
			}
		case !fits:
			if !errors.Is(answers[i].Err, counting.ErrOverflow) {
				t.Fatalf("add %d of %d to %d got %+v, want ErrOverflow", i, a.delta, v, answers[i])
			}
		default:
			values[a.id] = sum
			if answers[i].Err != nil || answers[i].Value != sum {
				t.Fatalf("add %d of %d to %d got %+v, want %d", i, a.delta, v, answers[i], sum)
			}
		}
	}
	for id, v := range values {
		if grouped[id] != v {
			t.Fatalf("%s is %d, one by one it would be %d", id, grouped[id], v)
		}
	}
}

func TestSettleTellsLockedFromMissing(t *testing.T) {
	t.Parallel()
	p := newPlan([]add{{"locked", 1}, {"missing", 1}, {"locked", 2}})
	answers := make([]coalesce.Answer[int64], 3)
	if alone := p.settle([]outcome{{exists: true}, {}}, answers); len(alone) != 0 {
		t.Errorf("to be applied alone: %v", alone)
	}
	if !answers[0].Locked || !answers[2].Locked || answers[1].Locked || !errors.Is(answers[1].Err, counting.ErrNotFound) {
		t.Errorf("answers %+v", answers)
	}
}
