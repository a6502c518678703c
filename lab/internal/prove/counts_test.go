package prove

import (
	"context"
	"slices"
	"testing"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/history"
)

func add(amounts ...int64) countChange { return countChange{amounts: amounts} }

func values(all ...int64) []int64 { return all }

func TestCountModel(t *testing.T) {
	t.Parallel()
	read, reset := add(), countChange{amounts: values(0), set: true}
	aside := op(2, 3, done, add(5), values(5))
	aside.Aside = true
	repeated := op(8, 9, done, add(5), values(5))
	repeated.First = 1
	for name, tc := range map[string]struct {
		ops   ops
		legal bool
	}{
		"one after the other": {ops{
			op(0, 1, done, add(5), values(5)), op(2, 3, done, add(-2), values(3)), op(4, 5, done, read, values(3)),
		}, true},
		"at once, in either order": {ops{op(0, 9, done, add(5), values(7)), op(1, 8, done, add(2), values(2))}, true},
		"a lost increase":          {ops{op(0, 1, done, add(5), values(5)), op(2, 3, done, read, values(0))}, false},
		"an increase made twice":   {ops{op(0, 1, done, add(5), values(10))}, false},
		"a stale read": {ops{
			op(0, 1, done, add(5), values(5)), op(2, 3, done, add(1), values(6)), op(4, 5, done, read, values(5)),
		}, false},
		"one answer given twice": {ops{op(0, 9, done, add(1), values(1)), op(0, 9, done, add(1), values(1))}, false},
		"unknown and done":       {ops{op(0, 1, lost, add(5), nil), op(2, 3, done, read, values(5))}, true},
		"unknown and done late": {ops{
			op(0, 1, lost, add(5), nil), op(2, 3, done, read, values(0)), op(4, 5, done, read, values(5)),
		}, true},
		"unknown and not done":   {ops{op(0, 1, lost, add(5), nil), op(2, 3, done, read, values(0))}, true},
		"unknown and done twice": {ops{op(0, 1, lost, add(5), nil), op(2, 3, done, read, values(10))}, false},
		"not applied, but done":  {ops{op(0, 1, undone, add(5), nil), op(2, 3, done, read, values(5))}, false},
		"a batch":                {ops{op(0, 1, done, add(5, -2), values(5, 3)), op(2, 3, done, read, values(3))}, true},
		"another change within a batch": {ops{
			op(0, 9, done, add(5, -2), values(5, 4)), op(0, 9, done, add(1), values(6)),
		}, false},
		"half a batch, of which the answer was lost": {ops{
			op(0, 1, lost, add(5, -2), nil), op(2, 3, done, read, values(5)),
		}, false},
		"refused, but done": {ops{op(0, 1, refused, add(5), nil), op(2, 3, done, read, values(5))}, false},
		"a reset": {ops{
			op(0, 1, done, add(5), values(5)), op(2, 3, done, reset, values(0)), op(4, 5, done, read, values(0)),
		}, true},
		"a lost reset": {ops{
			op(0, 1, done, add(5), values(5)), op(2, 3, done, reset, values(0)), op(4, 5, done, read, values(5)),
		}, false},
		"a repeat with the same key": {ops{
			op(0, 1, done, add(5), values(5)), aside, op(4, 5, done, read, values(5)),
		}, true},
		"the first request was applied": {ops{op(2, 3, done, add(1), values(6)), repeated}, true},
	} {
		wantLegal(t, name, countModel(), tc.ops, tc.legal)
	}
}

// No caller may be told OUTCOME_UNKNOWN where the database comes back in time.
func TestCountOutcomes(t *testing.T) {
	t.Parallel()
	told := func(ret int) history.Op {
		unknown := op(0, ret, lost, add(5), nil)
		unknown.Code = string(rowlock.ErrOutcomeUnknown)
		return unknown
	}
	cut := op(0, 1, lost, add(5), nil) // between client and replica
	for _, tc := range []struct {
		window string
		op     history.Op
		want   []Check
	}{
		{windowReplies, told(1), []Check{{Name: outcomes}}},
		{windowRestart, told(1), []Check{{Name: outcomes}}},
		{windowCitusReplies, told(1), []Check{{Name: outcomes}}},
		{windowCitusCoordinator, told(1), []Check{{Name: outcomes}}},
		{windowCitusCoordinator, told(4000), []Check{{Name: outcomes, OK: true}}},
		{windowCitusCoordinator, cut, []Check{{Name: outcomes, OK: true}}},
		{windowCitusWorker, told(1), nil}, // where nothing is demanded
	} {
		since := func(context.Context, string) (sum, most float64) { return 7, 7 }
		s := site{window: tc.window, resolved: 3, metric: since}
		f := &findings{ops: ops{op(0, 1, done, add(5), values(5)), tc.op}, signs: map[string]int{}}
		s.checkOutcomes(t.Context(), f)
		for i := range f.checks {
			f.checks[i].Detail = ""
		}
		if !slices.Equal(f.checks, tc.want) || f.signs[resolved] != 4 {
			t.Errorf("%s: %v, want %v; %d answers resolved", tc.window, f.checks, tc.want, f.signs[resolved])
		}
	}
}
