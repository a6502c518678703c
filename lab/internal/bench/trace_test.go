package bench

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestTraceComparesWithTracingOff(t *testing.T) {
	t.Parallel()

	options := quick()
	options.Trace = true

	system := new(fakeCounts).system(t, options)
	if _, err := Counts(t.Context(), system, options, new(bytes.Buffer)); err == nil {
		t.Error("without replicas that trace it measured something")
	}

	received := int64(0)
	system.Spans = func(context.Context) (int64, error) { received += 7; return received, nil }
	system.Traced = make(map[string]Fleet)

	for name := range TraceScenarios() {
		system.Traced[name] = Fleet{Replicas: system.Replicas, PIDs: system.PIDs}
	}

	report, err := Counts(t.Context(), system, options, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{scenarioTraceOff, scenarioTraceFew, scenarioTraceAll} {
		series := report.find(name)
		if series == nil || series.Runs[0].PerSecond <= 0 || series.Runs[0].Spans != 7 || !series.Runs[0].Sum.Holds() {
			t.Fatalf("%s: %+v", name, series)
		}
	}

	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"x off", "every request traced", "7 spans came to the receiver", "at least 0.95 x tracing off"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, &table)
		}
	}
}

func TestTraceIsOfCountsAlone(t *testing.T) {
	t.Parallel()

	options := PaymentsDefaults()
	options.Trace = true

	if err := options.Validate(); err == nil {
		t.Error("payments can be traced")
	}
}
