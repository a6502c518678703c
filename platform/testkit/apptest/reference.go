package apptest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

var update = flag.Bool("update", false, "write REFERENCE.md")

// ReferenceShowsConfiguration fails the test unless the page at path shows exactly what --help prints for the
// configuration. cfg is a pointer to its struct. With -update it writes that to the page.
func ReferenceShowsConfiguration(t *testing.T, path string, cfg any) {
	t.Helper()

	compare(t, path, "configuration", "```text\n"+config.Usage(cfg)+"```\n")
}

// ReferenceShowsMetrics fails the test unless the page at path shows exactly the replica's metrics that begin with
// rowlock_, http_server_ or one of the service's own prefixes, with their types, labels and help. With -update it
// writes them to the page. It also fails if a name breaks Prometheus's conventions. Call it after a request: a vector
// has no series before its first use, and a request is counted only after its answer, for which it waits.
func ReferenceShowsMetrics(t *testing.T, path string, r *Replica, prefixes ...string) {
	t.Helper()

	var metrics string
	waittest.Eventually(t, "the replica has counted a request", func() bool {
		metrics = r.Metrics(t)
		return strings.Contains(metrics, "\nhttp_server_request_duration_seconds_count{")
	})

	compare(t, path, "metrics", metricsTable(t, metrics, append(prefixes, "rowlock_", "http_server_")))

	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// metricsTable returns a Markdown table of the metrics with one of the prefixes, the service's own first.
func metricsTable(t *testing.T, metrics string, prefixes []string) string {
	t.Helper()

	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	if err != nil {
		t.Fatal(err)
	}

	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, prefix := range prefixes {
		for _, name := range slices.Sorted(maps.Keys(families)) {
			if !strings.HasPrefix(name, prefix) {
				continue
			}

			labels := make(map[string]bool)
			for _, series := range families[name].GetMetric() {
				for _, label := range series.GetLabel() {
					labels[label.GetName()] = true
				}
			}
			kind := strings.ToLower(families[name].GetType().String())
			all := strings.Join(slices.Sorted(maps.Keys(labels)), ", ")
			fmt.Fprintf(&table, "| %#q | %s | %s | %s |\n", name, kind, all, families[name].GetHelp())
		}
	}
	return table.String()
}

// compare fails the test unless want stands between the two marks of that name on the page at path. With -update it
// writes it there.
func compare(t *testing.T, path, name, want string) {
	t.Helper()

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, _ := strings.Cut(string(text), begin)
	got, after, found := strings.Cut(rest, end)
	switch {
	case !found:
		t.Errorf("%s lacks the marks %s and %s", path, begin, end)
	case got == want:
	case !*update:
		t.Errorf("%s is out of date: run the test with -update. It shows\n%s\nwant\n%s", path, got, want)
	default:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Error(err)
		}
	}
}
