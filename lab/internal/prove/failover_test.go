package prove

import (
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// The time without service ends with the answer of a change that was sent when the primary was gone: not of a read, nor
// of a change that the old primary may have acknowledged, nor of one that was refused.
func TestWithout(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	op := func(input potInput, call, end int, outcome targets.Outcome) history.Op {
		return history.Op{
			Input: input, Outcome: outcome,
			Call: time.Duration(call) * time.Millisecond, Return: time.Duration(end) * time.Millisecond,
		}
	}
	change := potInput{draw: 1}
	p := &prover{begun: begun, outages: []fault.Outage{
		{At: at(100), Lost: at(120)}, {At: at(1000), Lost: at(1010)}, {At: at(5000), Lost: at(5010)},
	}}
	got := p.without([]history.Op{
		op(change, 110, 125, targets.OK), op(potInput{}, 130, 140, targets.OK),
		op(change, 125, 150, targets.NotApplied), op(change, 130, 400, targets.OK), op(change, 125, 410, targets.OK),
		op(change, 1020, 1500, targets.OK),
	}, kinds[targets.Pyggpot].changes)
	if want := []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, 0}; !slices.Equal(got, want) {
		t.Errorf("without service %v, want %v", got, want)
	}
	again := func(without ...time.Duration) bool { return servedAgain(without, Synchronous).OK }
	if again(got...) || !again(got[:2]...) || again(longestOutage+1) || !servedAgain(got[:2], Managed).OK {
		t.Error("a service that acknowledges nothing for long, or never again, is not told from others")
	}
}

// A window that must lose changes holds when a check tells of it, and fails when none does, when only one fails that
// has other reasons, and when an answer was INTERNAL.
func TestNoticed(t *testing.T) {
	t.Parallel()
	lost, other := check("sums", false, "3 differ"), check("settled", false, "2 keys")
	for name, c := range map[string]struct {
		checks   []Check
		internal int
		want     []string // that fail
	}{
		"loss":            {[]Check{lost, check(linearizable, true, "")}, 0, nil},
		"no loss":         {[]Check{check("sums", true, ""), check(linearizable, true, "")}, 0, []string{"loss noticed"}},
		"another failure": {[]Check{other}, 0, []string{"loss noticed"}},
		"internal":        {[]Check{lost}, 1, []string{"answers"}},
	} {
		names, demands := noticed(c.checks, map[string]int{"INTERNAL": c.internal})
		var failed []string
		for _, f := range failures("", "", demands...) {
			failed = append(failed, f.Name)
		}
		if !slices.Equal(failed, c.want) || (len(names) > 0) != slices.Contains(c.checks, lost) {
			t.Errorf("%s: told by %v, %v fail, want %v", name, names, failed, c.want)
		}
	}
}
