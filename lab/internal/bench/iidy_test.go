package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeLists answers like the iidy service, in memory. It loses every loseth change that it acknowledges.
type fakeLists struct {
	lose int

	mu      sync.Mutex
	items   map[string]int64
	changes int
}

func (f *fakeLists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	rest, single := strings.CutPrefix(r.URL.Path, "/iidy/v1/lists/")
	_, item, isItem := strings.Cut(rest, "/")

	switch {
	case r.Method == http.MethodGet && single && !isItem:
		f.progress(w)

		return
	case r.Method == http.MethodGet:
		return
	case single:
		body = []byte(item)
	default:
	}

	for line := range strings.Lines(string(body)) {
		f.change(r, strings.TrimSuffix(line, "\n"))
	}
}

func (f *fakeLists) change(r *http.Request, item string) {
	if f.changes++; f.lose > 0 && f.changes%f.lose == 0 {
		return
	}

	switch {
	case r.Method == http.MethodDelete:
		delete(f.items, item)
	case r.URL.Query().Get("action") == "increment":
		f.items[item]++
	default:
		f.items[item] += 0
	}
}

func (f *fakeLists) progress(w http.ResponseWriter) {
	tried := int64(0)

	for _, attempts := range f.items {
		if attempts == 1 {
			tried++
		}
	}

	state := listState{Items: int64(len(f.items)), Attempts: map[string]int64{"1": tried}}
	if err := json.NewEncoder(w).Encode(state); err != nil {
		return
	}
}

func TestIidyBenchChecksTheLists(t *testing.T) {
	t.Parallel()

	for name, lose := range map[string]int{"an honest service": 0, "one that loses items": 5000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			fake := httptest.NewServer(&fakeLists{lose: lose, items: map[string]int64{}})
			defer fake.Close()

			o := IidyDefaults().Quick()
			o.Duration, o.Connections = time.Second, 4

			report, err := Iidy(t.Context(), System{Replicas: []string{strings.TrimPrefix(fake.URL, "http://")}}, o, io.Discard)
			if errors.Is(err, ErrNotExact) != (lose != 0) || err != nil && lose == 0 {
				t.Fatalf("%v", err)
			}

			for _, b := range iidyBars() {
				if got := report.find(b.scenario); got == nil || got.Median.PerSecond <= 0 {
					t.Errorf("%s: %+v", b.scenario, got)
				}
			}

			var table bytes.Buffer
			if err := report.WriteTable(&table); err != nil || !strings.Contains(table.String(), "single deletes") {
				t.Errorf("%v: %s", err, &table)
			}
		})
	}
}

// A bar is a multiple of the baseline's figure in the same run: twice as slow a machine has half the bar.
func TestIidyBars(t *testing.T) {
	t.Parallel()

	for perSecond, want := range map[float64]Verdict{121_000: Met, 120_900: Missed} {
		r := &Report{Service: serviceIidy, Options: IidyDefaults()}

		for name, figure := range map[string]float64{scenarioBareUniform: iidyPGBench / 2, scenarioAdd: perSecond} {
			s := Series{Name: name, Baseline: scenarioBareUniform, Runs: []Run{{Summary: Summary{PerSecond: figure}}}}
			s.summarize()
			r.Scenarios = append(r.Scenarios, s)
		}

		r.judge()

		if r.Bars[0].Verdict != want || r.Bars[1].Verdict != NotMeasured || len(r.Bars) != len(iidyBars()) {
			t.Errorf("%g items a second: %+v", perSecond, r.Bars)
		}
	}
}
