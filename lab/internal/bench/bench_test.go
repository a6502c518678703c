package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/platform/lifecycle"
)

// fakeCounts answers like the counts service. It loses every loseth increment that it acknowledges, and refuses every refuseth.
type fakeCounts struct {
	mu     sync.Mutex
	values map[string]int64

	number       atomic.Int64
	lose, refuse int64
}

func (f *fakeCounts) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/internal/counts", f.create)
	mux.HandleFunc("GET /api/v1/internal/counts", f.read)
	mux.HandleFunc("POST /api/v1/counts/{id}/increase", f.increase)

	return mux
}

func (f *fakeCounts) create(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ItemID string `json:"itemId"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)

		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if _, exists := f.values[body.ItemID]; exists {
		w.WriteHeader(http.StatusConflict)

		return
	}

	f.values[body.ItemID] = 0

	w.WriteHeader(http.StatusCreated)
}

func (f *fakeCounts) read(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()

	counts := []map[string]any{}

	for _, id := range r.URL.Query()["itemIds"] {
		if value, exists := f.values[id]; exists {
			counts = append(counts, map[string]any{"itemId": id, "currentValue": value})
		}
	}

	if err := json.NewEncoder(w).Encode(counts); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (f *fakeCounts) increase(w http.ResponseWriter, r *http.Request) {
	number := f.number.Add(1)
	if f.refuse > 0 && number%f.refuse == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)

		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if f.lose == 0 || number%f.lose != 0 {
		f.values[r.PathValue("id")]++
	}

	_, _ = fmt.Fprintf(w, `{"itemId":"whatever","value":%d}`, f.values[r.PathValue("id")])
}

// system serves the fake under as many addresses as the options need.
func (f *fakeCounts) system(t *testing.T, options Options) System {
	t.Helper()

	f.values = map[string]int64{}

	var system System

	for range options.ReplicasNeeded() {
		server := httptest.NewServer(f.handler())
		t.Cleanup(server.Close)

		system.Replicas = append(system.Replicas, server.Listener.Addr().String())
		system.PIDs = append(system.PIDs, os.Getpid())
	}

	return system
}

func quick(only ...string) Options {
	options := Defaults().Quick()
	options.Only, options.Warmup, options.Items = only, 50*time.Millisecond, 700

	return options
}

func TestCountsReportsEveryScenario(t *testing.T) {
	t.Parallel()

	options, progress := quick(), new(bytes.Buffer)

	report, err := Counts(t.Context(), new(fakeCounts).system(t, options), options, progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}

	for _, name := range []string{"uniform", "hot-1", "hot-2", "hot-3", "open"} {
		series := report.find(name)
		if series == nil {
			t.Fatalf("no scenario %s in the report", name)
		}

		run := series.Runs[0]
		if run.PerSecond <= 0 || run.Errors != 0 || run.Latency.P50 <= 0 || run.CPU.Client <= 0 || len(run.Curve) == 0 {
			t.Errorf("%s: %+v", name, run.Summary)
		}

		if run.Sum == nil || run.Sum.Acknowledged == 0 || run.Sum.Gained != run.Sum.Acknowledged {
			t.Errorf("%s: sum check %+v", name, run.Sum)
		}

		if _, err := os.Stat("/proc/self/stat"); err == nil && (len(run.Memory) < 3 || run.CPU.Replicas <= 0) {
			t.Errorf("%s: %d memory samples, CPU %+v", name, len(run.Memory), run.CPU)
		}
	}

	for _, bar := range report.Bars {
		if bar.Verdict != NotJudged && bar.Verdict != NotMeasured {
			t.Errorf("a smoke test judged: %+v", bar)
		}
	}

	checkOutputs(t, report)
}

// checkOutputs writes the report in its three forms.
func checkOutputs(t *testing.T, report *Report) {
	t.Helper()

	var table, svg bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{
		"uniform, 2 replicas", "one hot item, 3 replicas", "in 5 of 5 runs", "open loop, 1,000/s",
		"counts " + lifecycle.Version() + "  ", "fillfactor (50)",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}

	if err := report.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}

	for decoder := xml.NewDecoder(&svg); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			t.Fatalf("the plot is not well-formed: %v", err)
		}

		if element, ok := token.(xml.StartElement); ok {
			for _, attribute := range element.Attr {
				if strings.Contains(attribute.Value, "NaN") || strings.Contains(attribute.Value, "Inf") {
					t.Errorf("the plot has a figure that is none: <%s %s=%q>", element.Name.Local, attribute.Name.Local, attribute.Value)
				}
			}
		}
	}

	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}

	var again Report
	if err := json.Unmarshal(raw, &again); err != nil || len(again.Scenarios) != len(report.Scenarios) {
		t.Errorf("the JSON form does not survive a round trip: %v", err)
	}

	if again.Version != lifecycle.Version() {
		t.Errorf("the JSON form says version %q, this is %q", again.Version, lifecycle.Version())
	}
}

func TestLostIncrementIsFound(t *testing.T) {
	t.Parallel()

	options := quick("hot-1", "uniform")

	report, err := Counts(t.Context(), (&fakeCounts{lose: 100}).system(t, options), options, io.Discard)
	if !errors.Is(err, ErrNotExact) {
		t.Fatalf("error %v, want %v", err, ErrNotExact)
	}

	if report == nil || report.find("uniform") == nil || report.find("hot-1") == nil {
		t.Error("the figures are lost with the error")
	}
}

func TestRefusalsAreErrorsButExact(t *testing.T) {
	t.Parallel()

	options := quick("open")

	report, err := Counts(t.Context(), (&fakeCounts{refuse: 10}).system(t, options), options, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	run := report.find("open").Runs[0]
	if run.Errors == 0 || run.Statuses[http.StatusServiceUnavailable] != run.Errors || run.Sum.Refused < run.Errors {
		t.Errorf("%d errors, statuses %v, sum %+v", run.Errors, run.Statuses, run.Sum)
	}
}

func TestMissingReplicaIsSaid(t *testing.T) {
	t.Parallel()

	options := quick()

	_, err := Counts(t.Context(), System{Replicas: []string{"127.0.0.1:1"}}, options, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "3 replicas") {
		t.Errorf("error %v, want one that asks for 3 replicas", err)
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
