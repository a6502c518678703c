package bench

import (
	"testing"
	"time"
)

// The statements of PostgreSQL in the words of MariaDB.
func TestStatementsOfTheEngines(t *testing.T) {
	t.Parallel()

	const query = `INSERT INTO events.events (id, value) SELECT s.n, 'word' || (s.n % 3000) FROM generate_series(1, $1) AS s (n)`

	if got := (&eventTable{}).sql(query); got != query {
		t.Errorf("PostgreSQL: %s", got)
	}

	want := `INSERT INTO events (id, value) SELECT s.n, concat('word', s.n % 3000) FROM (SELECT seq AS n FROM seq_1_to_1000000 LIMIT ?) AS s`
	if got := (&eventTable{mysql: true}).sql(query); got != want {
		t.Errorf("MariaDB: %s", got)
	}
}

// The bars of events, on both sides of each.
func TestBarsOfEvents(t *testing.T) {
	t.Parallel()

	report := func(add, work float64, few, many, lookup time.Duration) *Report {
		series := func(name string, perSecond float64, p50 time.Duration) Series {
			s := Series{Name: name, Runs: []Run{{Summary: Summary{PerSecond: perSecond, Latency: Latency{P50: p50}}}}}
			s.summarize()

			return s
		}
		r := &Report{Service: serviceEvents, Options: EventsDefaults(), Scenarios: []Series{
			series(scenarioBareEvent, 1000, 0), series(scenarioAddEvent, add, 0), series(scenarioWork, work, 0),
			series(scenarioClaimFew, 1, few), series(scenarioClaimMany, 1, many), series(scenarioLookup, 1, lookup),
		}}
		r.Scenarios[1].Baseline = scenarioBareEvent
		r.judge()

		return r
	}

	ms := time.Millisecond
	for _, tc := range []struct {
		report *Report
		want   Verdict
	}{
		{report(6000, 20_000, ms, 2*ms, 3*ms-1), Met},
		{report(5900, 19_999, ms, 2*ms+1, 3*ms), Missed},
	} {
		if len(tc.report.Bars) != 4 {
			t.Fatalf("%d bars", len(tc.report.Bars))
		}

		for _, bar := range tc.report.Bars {
			if bar.Verdict != tc.want {
				t.Errorf("%+v, want %s", bar, tc.want)
			}
		}
	}

	none := &Report{Service: serviceEvents, Options: EventsDefaults()}
	none.judge()

	for _, bar := range none.Bars {
		if bar.Verdict != NotMeasured {
			t.Errorf("%+v", bar)
		}
	}
}
