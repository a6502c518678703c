package bench

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// reportOf makes a report with one figure per scenario.
func reportOf(bareUniform, uniform, bareRow, hot float64, open Run) *Report {
	options := Defaults()
	report := &Report{Options: options}

	for _, s := range options.scenarios() {
		series := Series{Name: s.name, Title: s.title, Baseline: s.baseline}

		switch s.name {
		case scenarioBareUniform:
			series.Runs = []Run{{Summary: Summary{PerSecond: bareUniform}}}
		case scenarioUniform:
			series.Runs = []Run{{Summary: Summary{PerSecond: uniform}}}
		case scenarioBareRow:
			series.Runs = []Run{{Summary: Summary{PerSecond: bareRow}}}
		case hotName(2):
			series.Runs = []Run{{Summary: Summary{PerSecond: hot}}}
		case scenarioOpen:
			series.Runs = []Run{open}
		}

		series.summarize()
		report.Scenarios = append(report.Scenarios, series)
	}

	report.judge()

	return report
}

func openRun(p99 time.Duration, errs int64, rss ...int64) Run {
	run := Run{Summary: Summary{PerSecond: 10_000, Errors: errs, Latency: Latency{P99: p99}}}
	for _, bytes := range rss {
		run.Memory = append(run.Memory, MemorySample{RSS: []int64{1000, bytes}})
	}

	return run
}

func TestBars(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		report *Report
		want   [5]Verdict // uniform, hot, errors, p99, memory
	}{
		"all met": {
			reportOf(18_000, 18_000, 2_000, 12_000, openRun(49*time.Millisecond, 0, 500, 1000, 1100)),
			[5]Verdict{Met, Met, Met, Met, Met},
		},
		"all missed": {
			reportOf(18_000, 17_900, 2_000, 11_900, openRun(50*time.Millisecond, 1, 500, 1000, 1101)),
			[5]Verdict{Missed, Missed, Missed, Missed, Missed},
		},
		"no baseline": {
			reportOf(0, 18_000, 0, 11_900, openRun(time.Millisecond, 0)),
			[5]Verdict{NotMeasured, NotMeasured, Met, Met, NotMeasured},
		},
	}
	for name, test := range tests {
		for i, bar := range test.report.Bars {
			if bar.Verdict != test.want[i] {
				t.Errorf("%s: %+v, want %s", name, bar, test.want[i])
			}
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()

	series := Series{Runs: []Run{
		{Summary: Summary{PerSecond: 30, Errors: 1, Latency: Latency{P99: 3, Max: 9}}},
		{Summary: Summary{PerSecond: 10, Errors: 0, Latency: Latency{P99: 1, Max: 90}}},
		{Summary: Summary{PerSecond: 20, Errors: 4, Latency: Latency{P99: 2, Max: 8}}},
	}}
	series.summarize()

	if want := (Summary{PerSecond: 20, Errors: 5, Latency: Latency{P99: 2, Max: 90}}); series.Median != want {
		t.Errorf("median %+v, want %+v", series.Median, want)
	}

	if got := medianOf(series.Runs[:2], func(r Run) float64 { return r.PerSecond }); got != 20 {
		t.Errorf("median of 30 and 10: %g", got)
	}

	if got := medianOf(nil, func(r Run) float64 { return r.PerSecond }); got != 0 {
		t.Errorf("median of nothing: %g", got)
	}
}

func TestTableNamesMissedBars(t *testing.T) {
	t.Parallel()

	var table bytes.Buffer
	if err := reportOf(18_000, 9_000, 2_000, 13_000, openRun(time.Millisecond, 0)).WriteTable(&table); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"MISSED", "0.50 x", "MET", "6.50 x", "18,000", "pgbench -M prepared"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()

	if err := Defaults().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}

	if err := Defaults().Quick().Validate(); err != nil {
		t.Errorf("the quick ones: %v", err)
	}

	bad := Options{Runs: 0, Warmup: -1, Duration: time.Millisecond, Rate: -1, Replicas: 1, Connections: 1, Only: []string{"lukewarm"}}

	err := bad.Validate()
	for _, want := range []string{"runs", "warmup", "duration", "open-duration", "rate", "connections", "items", `"lukewarm"`, "hot-3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}

	options := Defaults()
	options.Only = []string{"uniform"}

	if got := options.ReplicasNeeded(); got != 2 {
		t.Errorf("uniform alone needs %d replicas, want 2", got)
	}

	if got := Defaults().ReplicasNeeded(); got != 3 {
		t.Errorf("all scenarios need %d replicas, want 3", got)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()

	for value, want := range map[float64]string{0: "0", 999.6: "1,000", 18_200: "18,200", 1_234_567: "1,234,567"} {
		if got := thousands(value); got != want {
			t.Errorf("%g: %s, want %s", value, got, want)
		}
	}

	for value, want := range map[time.Duration]string{
		0: "-", 123 * time.Microsecond: "0.12", 1500 * time.Microsecond: "1.50", 12_340 * time.Microsecond: "12.3", 2 * time.Second: "2000",
	} {
		if got := plainMS(value); got != want {
			t.Errorf("%v: %s ms, want %s", value, got, want)
		}
	}
}

func TestParseMachine(t *testing.T) {
	t.Parallel()

	got := parseMachine("cpu  100 10 50 9999 8888 2 3 5 77 66\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	if want := 1700 * time.Millisecond; got != want {
		t.Errorf("busy for %v, want %v", got, want)
	}

	for _, bad := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8 9", "cpu 1 2 x 4 5 6 7 8"} {
		if got := parseMachine(bad); got != 0 {
			t.Errorf("%q: %v, want 0", bad, got)
		}
	}
}

func TestTableSaysThatTheMachineWasBusy(t *testing.T) {
	t.Parallel()

	for others, want := range map[float64]bool{0.04: false, 0.3: true} {
		run := openRun(time.Millisecond, 0)
		run.Others = others

		var table bytes.Buffer
		if err := reportOf(1, 1, 1, 1, run).WriteTable(&table); err != nil {
			t.Fatal(err)
		}

		if got := strings.Contains(table.String(), "Other programs used up to 30 %"); got != want {
			t.Errorf("others %g: said %t, want %t", others, got, want)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()

	// From proc(5): field 4 parent, 14 and 15 CPU ticks, 24 resident pages; the name is the worst that it can be.
	got, err := parseStat("123 (a) b (c) S 7 8 9 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 9 0 1000 5000 42 18446744073709551615 1 1")
	if want := (process{parent: 7, cpu: 2 * time.Second, rss: 42 * int64(os.Getpagesize())}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}

	for _, bad := range []string{"", "123 (a) S 7", "123 (a) S x 8 9 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 9 0 1000 5000 42 1"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: %+v, want an error", bad, got)
		}
	}
}
