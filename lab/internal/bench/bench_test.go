package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
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
		Options: Options{Service: targets.Counts, Runs: 1, Duration: time.Second, Quick: true, Only: only},
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
}

// The tables that are compared have one fillfactor: the migration of counts begins with its own.
func TestFillFactor(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../services/counts/internal/postgres/migrations/00001_count_values.sql")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`fillfactor\s*=\s*(\d+)`).FindStringSubmatch(string(text))
	if len(found) == 0 || found[1] != strconv.Itoa(fillFactor) {
		t.Errorf("the service's table has the fillfactor %q", found)
	}
}

// A published report replaces its section of the page and leaves the rest, with a plot of the sweep beside it.
func TestPublish(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	text := "before\n<!-- bench counts -->\nold\n<!-- end of bench -->\nafter\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	measured := []Result{{Figures: Figures{perSecond: 25_314, p50: 9.1, p99: 200, errorCount: 0}}}
	r := Report{Options: Options{Service: targets.Counts, Runs: 3, Duration: time.Second}, Scenarios: []Scenario{
		{Name: "pgbench", Title: "bare", Anchor: true, Runs: []Result{{Figures: Figures{perSecond: 10_000}}}},
		{
			Name: "uniform", Title: "all", Baseline: "pgbench", Runs: measured,
			Bars: Figures{perSecond: 3}, Limits: Figures{p99: 200},
		},
		{Name: "sweep-1", Series: "counts", Callers: 1, Runs: measured},
	}}
	r.summarize()
	if err := r.Publish(page); err != nil {
		t.Fatal(err)
	}

	got, err := os.ReadFile(page)
	plot, plotErr := os.ReadFile(filepath.Join(filepath.Dir(page), "page", "counts.svg"))
	if err != nil || plotErr != nil || !strings.Contains(string(plot), "<polyline") {
		t.Errorf("%v, %v, the plot is %.99q", err, plotErr, plot)
	}
	const row = "| all | 25,300 | 10,000 (pgbench) | 2.53 | 9.1 ms | 200 ms | 0 | " +
		"at least 3 x (**missed**), p99 at most 200 ms |\n"
	for _, want := range []string{"before\n<!-- bench counts -->\n", row, "<!-- end of bench -->\nafter\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}
