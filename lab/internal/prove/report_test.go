package prove

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// proven returns the report of a run of one window, with kills, in which everything held.
func proven(t *testing.T) *Report {
	t.Helper()
	windows, err := Schedule(1, 8*time.Second, []string{windowKill})
	if err != nil {
		t.Fatal(err)
	}
	w := &WindowResult{Window: windows[0]}
	s := ServiceResult{Service: "counts", OK: 200, Unknown: 1, Done: map[fault.Action]int{fault.Kill: 1}}
	s.Checks = slices.Concat([]Check{check(linearizable, true, "fine")}, w.judge(s, 0), w.judgeEffects(s))
	w.Services = []ServiceResult{s}
	return &Report{Seed: 1, Replicas: 3, Windows: []*WindowResult{w}}
}

// failing returns the names of the checks that fail.
func failing(checks []Check) (names []string) {
	for _, c := range checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

// The report fails for each thing that can be wrong, and for nothing else. What is wrong
// with the run itself stands in the command's TestConclude.
func TestFailures(t *testing.T) {
	t.Parallel()
	if f := proven(t).Failures(); len(f) != 0 {
		t.Fatalf("a run in which everything held: %v", f)
	}
	for name, spoil := range map[string]func(r *Report, s *ServiceResult){
		"a check":   func(_ *Report, s *ServiceResult) { s.Checks[0].OK = false },
		"an effect": func(_ *Report, s *ServiceResult) { s.Checks[len(s.Checks)-1].OK = false },
		"a leak":    func(r *Report, _ *ServiceResult) { r.After = []Check{check(goroutines, false, "many")} },
		"deadlocks": func(r *Report, _ *ServiceResult) {
			r.Windows[0].Checks = []Check{check(deadlocks, false, "1")}
		},
	} {
		r := proven(t)
		spoil(r, &r.Windows[0].Services[0])
		if f := r.Failures(); len(f) != 1 || f[0].OfRun() {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// A window in which a promise was broken is not repeated, because its result would be replaced.
func TestBrokenPromiseIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := proven(t).Windows[0]
	checks := w.Services[0].Checks
	if checks[len(checks)-1].OK = false; w.missed() == "" {
		t.Error("an effect was missed, and the window is not repeated")
	}
	if checks[0].OK = false; w.missed() != "" {
		t.Errorf("it is repeated because of %s", w.missed())
	}
}

// A window in which nothing was done, or no operation succeeded, misses an effect.
func TestWindowsDemandAnEffect(t *testing.T) {
	t.Parallel()
	windows, err := Schedule(1, 20*time.Second, Names())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range windows {
		idle := ServiceResult{Service: "events", OK: 1000, Done: map[fault.Action]int{}}
		idle.Checks = w.judgeEffects(idle)
		if missed := (&WindowResult{Services: []ServiceResult{idle}}).missed(); (missed == "") != (len(w.Events) == 0) {
			t.Errorf("%s: nothing was done, and what is missed is %q", w.Name, missed)
		}
		idle.OK = 0
		idle.Checks = w.judgeEffects(idle)
		if (&WindowResult{Services: []ServiceResult{idle}}).missed() == "" {
			t.Errorf("%s: no operation succeeded, and nothing is missed", w.Name)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	outages := map[fault.Action]int{fault.RestartDB: 2, fault.Backend: 9}
	for _, c := range []struct {
		window string
		result ServiceResult
		flips  int
		want   []string
	}{
		{windowNone, ServiceResult{OK: 1}, 0, nil},
		{windowNone, ServiceResult{NotApplied: 1}, 0, []string{"unnoticed"}},
		{windowTerm, ServiceResult{Unknown: 1}, 0, []string{"unnoticed"}},
		{windowHostile, ServiceResult{OK: 1}, 0, nil},
		{windowHostile, ServiceResult{NotApplied: 1}, 0, []string{"unnoticed"}},
		{windowKill, ServiceResult{Unknown: 1}, 0, nil},
		{windowKill, ServiceResult{Slowest: time.Minute}, 0, []string{"no hang"}},
		{windowStop, ServiceResult{Slowest: time.Minute}, 0, nil},
		{windowKill, ServiceResult{Recovery: 3 * time.Second}, 0, []string{"live"}},
		{"restart", ServiceResult{Done: outages}, 2, nil},
		{"restart", ServiceResult{Done: outages}, 3, []string{"readiness"}},
	} {
		if got := failing((Window{Name: c.window}).judge(c.result, c.flips)); !slices.Equal(got, c.want) {
			t.Errorf("%s, %+v: %v, want %v", c.window, c.result, got, c.want)
		}
	}
}

// A mutant is found by a failure that it is to cause, in its window, and by no other.
func TestFoundBy(t *testing.T) {
	t.Parallel()
	mutant := Mutant{Service: "counts", Window: windowKill, Checks: []string{linearizable}}
	r := proven(t)
	r.Broken = "the replicas do not start"
	if f := mutant.FoundBy(r); f != nil {
		t.Errorf("everything held: %+v", f)
	}
	r.Windows[0].Services[0].Checks[0].OK = false
	if f := mutant.FoundBy(r); f == nil || f.Name != linearizable {
		t.Errorf("found by %+v", f)
	}
	r.Windows[0].Name = windowTerm
	if f := mutant.FoundBy(r); f != nil {
		t.Errorf("found in another window: %+v", f)
	}
	r.Windows[0].Name, r.Windows[0].Checks = windowNone, []Check{check(deadlocks, false, "3")}
	if f := (Mutant{Service: "counts", Window: windowNone, Checks: []string{deadlocks}}).FoundBy(r); f == nil {
		t.Error("deadlocks are not found")
	}
}

func TestEveryServiceIsProven(t *testing.T) {
	t.Parallel()
	for _, name := range targets.Names() {
		if kinds[name].open == nil {
			t.Errorf("%s is not registered", name)
		}
	}
}

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
	again := func(without ...time.Duration) bool { return judgeOutages(without, Synchronous).OK }
	if again(got...) || !again(got[:2]...) || again(longestOutage+1) || !judgeOutages(got[:2], Managed).OK {
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
		if got := failing(noticed(c.checks, map[string]int{"INTERNAL": c.internal})); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v fail, want %v", name, got, c.want)
		}
	}
}

// Every demand on a service under attack fails when it is not met, and no other one.
func TestAccount(t *testing.T) {
	t.Parallel()
	windows, err := Schedule(1, 8*time.Second, []string{windowHostile})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		calm, under time.Duration // p99
		spoil       func(a *victim)
		want        []string
	}{
		"holds":          {calm: 40 * time.Millisecond, under: lockWait - 1},
		"waits":          {calm: 40 * time.Millisecond, under: lockWait, want: []string{"isolated"}},
		"a wrong answer": {spoil: func(a *victim) { a.Accuse("201") }, want: []string{"attackers"}},
		"memory":         {spoil: func(a *victim) { a.memory = mostMemory + 1 }, want: []string{"memory"}},
		"idle":           {spoil: func(a *victim) { a.idle = 2 * time.Second }, want: []string{"idle in transaction"}},
	} {
		a := &victim{}
		if tc.spoil != nil {
			tc.spoil(a)
		}
		w, f := windows[0], &findings{}
		from := w.Events[0].At
		for at, took := range map[time.Duration]time.Duration{
			0: time.Minute, from - 1: tc.calm, from: tc.under, w.For - quiet: time.Minute,
		} {
			f.ops = append(f.ops, history.Op{Call: at, Return: at + took})
		}
		a.account(t.Context(), w, f)
		if failed := failing(f.checks); !slices.Equal(failed, tc.want) {
			t.Errorf("%s: %v, want %v; %s", name, failed, tc.want, f.checks[0].Detail)
		}
	}
}

// What is stored lies between what was acknowledged and that with what may have been applied.
func TestAttackersAccounts(t *testing.T) {
	t.Parallel()
	v := &victim{}
	for _, err := range []error{
		nil, nil, &rowlock.Error{Code: rowlock.ErrOutcomeUnknown}, &rowlock.Error{Code: rowlock.ErrOverloaded},
	} {
		if got := v.ask(t.Context(), func(context.Context) (int64, error) { return 1, err }); !errors.Is(got, err) {
			t.Errorf("%v instead of %v", got, err)
		}
	}
	for n, want := range map[int64]bool{1: false, 2: true, 3: true, 4: false} {
		if v.adds(n) != want {
			t.Errorf("%d stored, %d acknowledged, %d unknown: %t", n, v.acked, v.unknown, !want)
		}
	}
	if len(v.Wrong()) != 0 {
		t.Errorf("refusals that must be: %v", v.Wrong())
	}
	_ = v.ask(t.Context(), func(context.Context) (int64, error) { return 0, &rowlock.Error{Code: rowlock.ErrInternal} })
	if len(v.Wrong()) != 1 {
		t.Error("an internal error is no wrong answer")
	}
}
