package postgres

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Where a count's value is within the bounds of its sum, every add gets the value that counting.Decide gives it. It is
// within them if and only if all adds fit, and their sums are within int64.
func TestSumsAreOneByOne(t *testing.T) {
	t.Parallel()
	deltas := rapid.SampledFrom([]int64{1, -1, 3, -7, math.MaxInt64, -math.MaxInt64, math.MaxInt64 - 2})
	values := rapid.SampledFrom([]int64{0, 5, math.MaxInt64, math.MaxInt64 - 3, math.MinInt64, math.MinInt64 + 7})
	ids := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		group := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plainAdd {
			return plainAdd{ids.Draw(t, "id"), deltas.Draw(t, "delta")}
		}), 1, 10).Draw(t, "group")
		start := map[counting.ItemID]int64{
			"a": values.Draw(t, "a"), "b": values.Draw(t, "b"), "c": values.Draw(t, "c"),
		}
		var requests []counting.Request
		for _, a := range group {
			requests = append(requests, counting.Request{
				Changes: []counting.Change{{ItemID: counting.ItemID(a.id), Delta: a.delta}},
			})
		}
		answers := counting.Decide(requests, counting.State{Values: start}).Answers

		sums := sumUp(group)
		allFit := make(map[string]bool)
		for i, a := range group {
			before, seen := allFit[a.id]
			allFit[a.id] = (before || !seen) && answers[i].Refusal == ""
		}
		for i, a := range group {
			n := sums.places[i] - 1
			value := start[counting.ItemID(a.id)]
			within := sums.lowest[n] <= value && value <= sums.highest[n]
			wide := sums.lowest[n] > sums.highest[n]
			if sums.ids[n] != a.id || within != (allFit[a.id] && !wide) {
				t.Fatalf("%s at %d: within %d and %d, all fit: %t", a.id, value, sums.lowest[n], sums.highest[n], allFit[a.id])
			}
			if within && value+sums.running[i] != answers[i].Values[0] {
				t.Errorf("add %d gets %d, want %d", i, value+sums.running[i], answers[i].Values[0])
			}
		}
	})
}
