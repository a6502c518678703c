package prove

import (
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
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
	windows, err := Schedule(1, 20*time.Second, AllNames())
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
	failed := func(window string, s ServiceResult, flips int) (names []string) {
		for _, c := range (Window{Name: window}).judge(s, flips) {
			if !c.OK {
				names = append(names, c.Name)
			}
		}
		return names
	}
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
		if got := failed(c.window, c.result, c.flips); !slices.Equal(got, c.want) {
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
	if len(Mutants()) != 15 {
		t.Errorf("%d mutants", len(Mutants()))
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
