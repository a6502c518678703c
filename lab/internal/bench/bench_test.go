package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
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
	o := Defaults(services.Counts).Quick()
	o.Warmup, o.OpenDuration, o.Rate = 50*time.Millisecond, time.Second, 500
	s := system{host: Host{Progress: io.Discard}}
	for range 2 {
		server := httptest.NewServer(f)
		t.Cleanup(server.Close)
		s.api, s.pids = append(s.api, server.Listener.Addr().String()), append(s.pids, os.Getppid())
	}
	driven := func(change func(d *drive)) func(*runner) drive {
		return func(*runner) drive {
			d := drive{state: func(context.Context) (int64, error) { return f.state.Load(), nil }}
			d.Requests = [][]byte{request(http.MethodPost, "/", "", "")}
			change(&d)
			return d
		}
	}
	suite := suite{
		prepare: func(context.Context, *runner) error { return nil },
		scenarios: []scenario{
			{name: "pgbench", title: "bare pgbench", pgbench: func() string { return "" }},
			{name: "closed", title: "closed loop", replicas: 2, drive: driven(func(*drive) {})},
			{name: "open", title: "open loop", replicas: 1, baseline: "closed", drive: driven(func(d *drive) {
				d.Rate, d.Duration = o.Rate, o.OpenDuration
			})},
			{name: "once", title: "each once", replicas: 1, drive: driven(func(d *drive) {
				d.Requests, d.once = slices.Repeat(d.Requests, 700), true
			})},
			{name: "batch", title: "two each", replicas: 1, drive: driven(func(d *drive) {
				state := d.state
				d.state = func(ctx context.Context) (int64, error) { n, err := state(ctx); return 2 * n, err }
				d.items = 2
			})},
		},
		bars: []bar{{"half of a closed loop", perSecond, "open", "closed", atLeast, 0.5}},
	}.only(only)
	return measure(t.Context(), &s, o, suite)
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
		if _, late := s.Median[lateP99]; late != (s.Name == "open") {
			t.Errorf("%s: lateness %t", s.Name, late)
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
	for _, want := range []string{
		"closed loop", "late p99 ms", "in 4 of 4 runs", "NOT JUDGED", "at least 0.5 x closed", "fillfactor (50)",
	} {
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
	report, err := (&fake{lose: 100}).run(t, "closed", "once")
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
	if n == 0 || run.Statuses[http.StatusServiceUnavailable] != n || run.Sum.Refused < n {
		t.Errorf("%d errors, statuses %v, sum %+v", n, run.Statuses, run.Sum)
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
	} {
		if sum.Holds() != want {
			t.Errorf("%+v holds: %t, want %t", sum, sum.Holds(), want)
		}
	}
	tally := load.Tally{Acknowledged: 3, Unknown: 1}
	if got := (drive{items: 10}).expect(tally); got != (load.Tally{Acknowledged: 30, Unknown: 10}) {
		t.Errorf("batches of ten: %+v", got)
	}
	if got := (drive{replay: true}).expect(tally); got != (load.Tally{}) {
		t.Errorf("replays: %+v", got)
	}
}

func TestMedians(t *testing.T) {
	t.Parallel()
	r := &Report{Options: Options{Judge: true}, Scenarios: []Series{
		{Name: "base", Runs: []Result{{Figures: Figures{perSecond: 100}}}},
		{Name: "s", Baseline: "base", Runs: []Result{
			{Figures: Figures{perSecond: 300, maxLatency: 1, errorCount: 1}},
			{Figures: Figures{perSecond: 100, maxLatency: 9}},
			{Figures: Figures{perSecond: 200, maxLatency: 2, errorCount: 2}},
		}},
		{Name: "not run"},
	}}
	r.summarize()
	want := Figures{perSecond: 200, maxLatency: 9, errorCount: 3, spread: 50, ratio: 2}
	if got := r.Scenarios[1].Median; len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, v := range want {
		if got := r.Scenarios[1].Median[name]; got != v {
			t.Errorf("%s: %g, want %g", name, got, v)
		}
	}
	for _, tc := range []struct {
		bar  bar
		want Bar
	}{
		{bar{"", perSecond, "s", "base", atLeast, 2}, Bar{"", "at least 2 x base", "2 x", Met}},
		{bar{"", perSecond, "s", "base", atLeast, 2.1}, Bar{"", "at least 2.1 x base", "2 x", Missed}},
		{bar{"", perSecond, "s", "", atLeast, 1000}, Bar{"", "at least 1,000/s", "200/s", Missed}},
		{bar{"", perSecond, "s", "base", atMost, 2}, Bar{"", "at most 2 x base", "2 x", Met}},
		{bar{"", perSecond, "s", "base", noBound, 1}, Bar{"", "shown beside 1 x base", "2 x", NotJudged}},
		{bar{"", errorCount, "s", "", atMost, 0}, Bar{"", "at most 0", "3", Missed}},
		{bar{"", p99, "s", "", atMost, 50}, Bar{"", "at most 50.0 ms", "-", NotMeasured}},
		{bar{"", perSecond, "not run", "base", atLeast, 2}, Bar{"", "at least 2 x base", "-", NotMeasured}},
	} {
		r.Bars = nil
		if r.judge([]bar{tc.bar}); r.Bars[0] != tc.want {
			t.Errorf("%+v, want %+v", r.Bars[0], tc.want)
		}
	}
}

// Every bar is about scenarios that its bench has, and every baseline is one of them.
func TestBarsAndBaselinesNameScenarios(t *testing.T) {
	t.Parallel()
	for service, newSuite := range suites() {
		for _, trace := range []bool{false, service == services.Counts} {
			o := Defaults(service)
			o.Trace, o.Replicas = trace, max(o.Replicas, 2)
			s, names := newSuite(o), map[string]bool{"": true}
			for _, one := range s.scenarios {
				if names[one.name] || !names[one.baseline] {
					t.Errorf("%s: scenario %s stands twice or before its baseline %q", service, one.name, one.baseline)
				}
				names[one.name] = true
				if (one.pgbench != nil) == (one.replicas > 0) && one.run == nil {
					t.Errorf("%s: scenario %s drives %d replicas", service, one.name, one.replicas)
				}
			}
			for _, b := range s.bars {
				if !names[b.scenario] || !names[b.over] {
					t.Errorf("%s: bar %+v names no scenario", service, b)
				}
			}
			if err := o.Validate(); err != nil {
				t.Errorf("%s: %v", service, err)
			}
		}
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"runs": func(o *Options) { o.Runs = 0 }, "warmup": func(o *Options) { o.Warmup = -1 },
		"duration": func(o *Options) { o.Duration = 1 }, "open-duration": func(o *Options) { o.OpenDuration = 1 },
		"rate": func(o *Options) { o.Rate = 0 }, "replicas": func(o *Options) { o.Replicas = 0 },
		"connections": func(o *Options) { o.Connections = 1 }, "items": func(o *Options) { o.Items = 0 },
		`"lukewarm"`: func(o *Options) { o.Only = []string{"uniform", "lukewarm"} },
		`"tea"`:      func(o *Options) { o.Service = "tea" },
		"trace":      func(o *Options) { o.Service, o.Trace = services.Iidy, true },
	} {
		o := Defaults(services.Counts)
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that mentions %s", err, want)
		}
	}
}

func TestSave(t *testing.T) {
	t.Parallel()
	dir, report := filepath.Join(t.TempDir(), "new", "folder"), &Report{Options: Defaults(services.Counts)}
	for range 2 { // the second time over the first
		if _, err := report.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "counts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(raw, &again); err != nil || again.Options.Service != services.Counts {
		t.Errorf("%v, %v", again, err)
	}
}

// The statements of PostgreSQL in the words of MariaDB.
func TestStatementsOfTheEngines(t *testing.T) {
	t.Parallel()
	const query = `INSERT INTO events.events (id, value)
		SELECT s.n, 'word' || (s.n % 3000) FROM generate_series(1, 10) AS s (n)`
	if got := (&eventTable{}).sql(query); got != query {
		t.Errorf("PostgreSQL: %s", got)
	}
	want := `INSERT INTO events (id, value)
		SELECT s.n, concat('word', s.n % 3000) FROM (SELECT seq AS n FROM seq_1_to_1000000 LIMIT 10) AS s`
	if got := (&eventTable{mysql: true}).sql(query); got != want {
		t.Errorf("MariaDB: %s", got)
	}
}
