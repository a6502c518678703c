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

// A change that is acknowledged and not there is found, by loads of both kinds, and the figures stay.
func TestLostChangeIsFound(t *testing.T) {
	t.Parallel()
	var number, state atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if number.Add(1)%5 != 0 { // few enough for a machine that makes 50 a second
			state.Add(1)
		}
	}))
	t.Cleanup(server.Close)
	r := &runner{
		Options: Options{Service: targets.Counts, Runs: 1, Duration: time.Second, Quick: true},
		host:    Host{Progress: io.Discard}, connections: 32,
		replicas: []local.Status{{API: server.Listener.Addr().String(), PID: os.Getppid()}},
	}
	one := [][]byte{request(http.MethodPost, "/", "", "")}
	driven := func(d drive) func(context.Context) (Result, error) {
		d.replicas, d.state = 1, func(context.Context) (int64, error) { return state.Load(), nil }
		return r.driving(func() drive { return d })
	}

	report, err := r.measure(t.Context(), suite{scenarios: []Scenario{
		{Name: "closed", run: driven(drive{Config: load.Config{Next: load.Draw(one)}})},
		{Name: "once", run: driven(drive{once: true, Config: load.Config{Next: load.Each(slices.Repeat(one, 700))}})},
	}})
	if !errors.Is(err, ErrNotExact) {
		t.Fatalf("error %v, want %v", err, ErrNotExact)
	}
	for _, s := range report.Scenarios {
		if len(s.Runs) != 1 || s.Median[lostChanges] == 0 {
			t.Errorf("%s: the loss is not in the figures: %+v", s.Name, s.Runs)
		}
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
			Name: "uniform", Title: "all", Baseline: "pgbench", Runs: measured, Bars: Figures{perSecond: 3, p99: 200},
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
