package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// fake counts the requests that it acknowledges. It loses every loseth of them, and refuses every refuseth.
type fake struct {
	number, state atomic.Int64
	lose, refuse  int64
}

func (f *fake) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	number := f.number.Add(1)
	if f.refuse > 0 && number%f.refuse == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if f.lose == 0 || number%f.lose != 0 {
		f.state.Add(1)
	}
}

// run measures scenarios of a closed loop, an open loop and single requests on two replicas of the fake.
func (f *fake) run(t *testing.T, only ...string) (*Report, error) {
	t.Helper()
	r := &runner{
		Options: Options{Service: services.Counts, Runs: 1, Duration: time.Second, Quick: true, Only: only},
		host:    Host{Progress: io.Discard}, connections: 32,
	}
	for range 2 {
		server := httptest.NewServer(f)
		t.Cleanup(server.Close)
		r.replicas = append(r.replicas, local.Status{API: server.Listener.Addr().String(), PID: os.Getppid()})
	}
	one := [][]byte{request(http.MethodPost, "/", "", "")}
	driven := func(d drive, times int64) func(context.Context) (Result, error) {
		d.state = func(context.Context) (int64, error) { return times * f.state.Load(), nil }
		return r.driving(func() drive { return d })
	}
	draw := load.Config{Next: load.Draw(one)}
	return r.measure(t.Context(), suite{scenarios: []Scenario{
		{Name: "pgbench", Title: "bare pgbench", run: r.bare("")},
		{Name: "closed", Title: "closed loop", run: driven(drive{replicas: 2, Config: draw}, 1)},
		{
			Name: "open", Title: "open loop", Baseline: "closed", Bars: Figures{perSecond: 0.5},
			run: driven(drive{replicas: 1, Config: load.Config{Next: draw.Next, Rate: 500}}, 1),
		},
		{
			Name: "once", Title: "each once",
			run: driven(drive{replicas: 1, once: true, Config: load.Config{Next: load.Each(slices.Repeat(one, 700))}}, 1),
		},
		{Name: "batch", Title: "two each", run: driven(drive{replicas: 1, items: 2, Config: draw}, 2)},
	}})
}

func TestEveryKindOfLoadIsReported(t *testing.T) {
	t.Parallel()
	report, err := new(fake).run(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Scenarios[1:] {
		run := s.Runs[0]
		if run.Figures[perSecond] <= 0 || run.Figures[errorCount] != 0 || run.Figures[p50] <= 0 || s.Median[p99] <= 0 {
			t.Errorf("%s: %+v", s.Name, run.Figures)
		}
		if run.Sum == nil || run.Sum.Acknowledged == 0 || run.Sum.Gained != run.Sum.Acknowledged {
			t.Errorf("%s: sum check %+v", s.Name, run.Sum)
		}
		_, err := os.Stat("/proc/self/stat")
		if err == nil && s.Name == "closed" && (s.Median[memory] <= 0 || s.Median[clientCPU] <= 0) {
			t.Errorf("%s: %+v", s.Name, s.Median)
		}
	}
	if once := report.Scenarios[3].Runs[0]; once.Sum.Acknowledged != 700 {
		t.Errorf("each once: %+v", once.Sum)
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"closed loop", clientCPU, "NOT JUDGED", "at least 0.5 x closed", "-c 32 -j 2"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
	if strings.Contains(table.String(), "bare pgbench") || strings.Contains(table.String(), "spans") {
		t.Errorf("the table has what was not measured:\n%s", &table)
	}
}

func TestLostChangeIsFound(t *testing.T) {
	t.Parallel()
	report, err := (&fake{lose: 5}).run(t, "closed", "once") // few enough for a machine that makes 50 a second
	if !errors.Is(err, ErrNotExact) {
		t.Fatalf("error %v, want %v", err, ErrNotExact)
	}
	if report == nil || len(report.Scenarios[1].Runs) != 1 || report.Scenarios[0].Median[lostChanges] == 0 {
		t.Errorf("the figures are lost with the error: %+v", report)
	}
}

func TestRefusalsAreErrorsButExact(t *testing.T) {
	t.Parallel()
	report, err := (&fake{refuse: 10}).run(t, "open")
	if err != nil {
		t.Fatal(err)
	}
	run := report.Scenarios[0].Runs[0]
	n := int64(run.Figures[errorCount])
	if n == 0 || run.Errors["503"] != n || run.Sum.Refused < n {
		t.Errorf("%d errors, %v, sum %+v", n, run.Errors, run.Sum)
	}
}

func TestSumCheck(t *testing.T) {
	t.Parallel()
	for sum, want := range map[SumCheck]bool{
		{Tally: load.Tally{Acknowledged: 10}, Gained: 10}:             true,
		{Tally: load.Tally{Acknowledged: 10}, Gained: 11}:             false,
		{Tally: load.Tally{Acknowledged: 10}, Gained: 9}:              false,
		{Tally: load.Tally{Acknowledged: 10, Refused: 1}, Gained: 11}: false,
		{Tally: load.Tally{Acknowledged: 10, Unknown: 2}, Gained: 12}: true,
		{Tally: load.Tally{Acknowledged: 10, Unknown: 2}, Gained: 13}: false,
		// A second charge for a payment, and one of a request without an answer.
		{Tally: load.Tally{Acknowledged: 10}, Gained: 10, Beside: 1}:             false,
		{Tally: load.Tally{Acknowledged: 10, Unknown: 1}, Gained: 10, Beside: 1}: true,
		{Tally: load.Tally{Acknowledged: 10, Unknown: 1}, Gained: 11, Beside: 1}: false,
		// What was such a charge before the run has its payment now.
		{Tally: load.Tally{Acknowledged: 10}, Gained: 11, Beside: -1}: true,
		{Tally: load.Tally{Acknowledged: 10}, Gained: 12, Beside: -1}: false,
	} {
		if sum.Holds() != want {
			t.Errorf("%+v holds: %t, want %t", sum, sum.Holds(), want)
		}
	}
}

func TestMedians(t *testing.T) {
	t.Parallel()
	r := &Report{Scenarios: []Scenario{
		{Name: "base", Runs: []Result{{Figures: Figures{perSecond: 100}}}},
		{Name: "s", Baseline: "base", Runs: []Result{
			{Figures: Figures{perSecond: 300, maxLatency: 1, errorCount: 1}},
			{Figures: Figures{perSecond: 100, maxLatency: 9}},
			{Figures: Figures{perSecond: 200, maxLatency: 2, errorCount: 2}},
		}},
		{Name: "not run"},
	}}
	r.summarize()
	want := Figures{perSecond: 200, maxLatency: 9, errorCount: 2, spread: 50, ratio: 2}
	if got := r.Scenarios[1].Median; len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, v := range want {
		if got := r.Scenarios[1].Median[name]; got != v {
			t.Errorf("%s: %g, want %g", name, got, v)
		}
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	base := Figures{perSecond: 100, p50: 2}
	for _, tc := range []struct {
		baseline, figure string
		limit            float64
		want             Bar
	}{
		{"base", perSecond, 2, Bar{Want: "at least 2 x base", Got: "2 x base", Outcome: "met"}},
		{"base", perSecond, 2.1, Bar{Want: "at least 2.1 x base", Got: "2 x base", Outcome: "missed"}},
		{"", perSecond, 1000, Bar{Want: "at least 1000", Got: "200", Outcome: "missed"}},
		{"base", p50, 2, Bar{Want: "at most 2 x base", Got: "0.5 x base", Outcome: "met"}},
		{"", errorCount, 0, Bar{Want: "at most 0", Got: "3", Outcome: "missed"}},
		{"", p99, 50, Bar{Want: "at most 50", Got: "-", Outcome: "not measured"}},
		{"base", errorCount, 2, Bar{Want: "at most 2 x base", Got: "-", Outcome: "not measured"}},
	} {
		s := &Scenario{Baseline: "base", Median: Figures{perSecond: 200, p50: 1, errorCount: 3}}
		tc.want.Figure = tc.figure
		beside := base
		if tc.baseline == "" {
			beside = nil
		}
		if got := s.judge(tc.figure, tc.limit, beside, true); got != tc.want {
			t.Errorf("%+v, want %+v", got, tc.want)
		}
	}
}

// Every baseline and every name of a scenario stands once, the baseline first, and every bar is a figure of the table.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, o := range append([]Options{
		{Service: services.Counts, Trace: true}, {Service: services.Iidy, Peer: "iidy"},
	}, all()...) {
		names := map[string]bool{"": true}
		for _, one := range (&runner{Options: o}).suite().scenarios {
			if names[one.Name] || !names[one.Baseline] || one.run == nil {
				t.Errorf("%s: scenario %s stands twice or before its baseline %q", o.Service, one.Name, one.Baseline)
			}
			names[one.Name] = true
			for figure := range slices.Values(slices.Concat(slices.Collect(maps.Keys(one.Bars)),
				slices.Collect(maps.Keys(one.Limits)))) {
				if !slices.Contains(columns(), figure) {
					t.Errorf("%s: a bar of %s names no figure: %s", o.Service, one.Name, figure)
				}
			}
		}
		if len(names) < 3 {
			t.Errorf("%s has the scenarios %v", o.Service, names)
		}
	}
}

func all() (options []Options) {
	for _, name := range services.Names() {
		options = append(options, Options{Service: name})
	}
	return options
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"runs": func(o *Options) { o.Runs = 0 }, "duration": func(o *Options) { o.Duration = 1 },
		`"lukewarm"`: func(o *Options) { o.Only = []string{"uniform", "lukewarm"} },
		`"tea"`:      func(o *Options) { o.Service = "tea" },
		"trace":      func(o *Options) { o.Service, o.Trace = services.Iidy, true },
		"peer":       func(o *Options) { o.Peer = "iidy" },
		"add-8":      func(o *Options) { o.Service, o.Only = services.Iidy, []string{Sweep, "get-8"} },
	} {
		o := Options{Service: services.Counts, Runs: 3, Duration: time.Second}
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that mentions %s", err, want)
		}
	}
}
