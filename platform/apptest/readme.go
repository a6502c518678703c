package apptest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/waittest"
)

// ReadmeShowsConfiguration fails the test unless the README at path contains the table that --help prints for the
// configuration. cfg is a pointer to the configuration's struct.
func ReadmeShowsConfiguration(t *testing.T, path string, cfg any) {
	t.Helper()
	var table strings.Builder
	if err := config.Usage(&table, cfg); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, path), table.String()) {
		t.Errorf("%s lacks this table:\n%s", path, table.String())
	}
}

// ReadmeNamesMetrics fails the test unless the table under "## Metrics" of the README at path lists exactly the metrics
// of the replica that begin with rowlock_, http_server_ or one of the prefixes, with their types and labels. It also
// fails if a name breaks Prometheus's conventions. It waits for the metrics: a vector has no series before it is used,
// and a request is counted only after its answer.
func ReadmeNamesMetrics(t *testing.T, path string, r *Replica, prefixes ...string) {
	t.Helper()

	documented := strings.Join(readmeMetrics(read(t, path)), "\n")
	var metrics, exposed string
	defer func() {
		if exposed != documented {
			t.Logf("%s names\n%s\nthe replica has\n%s", path, documented, exposed)
		}
	}()

	waittest.Eventually(t, "the replica has the metrics of "+path, func() bool {
		metrics = r.Metrics(t)
		exposed = strings.Join(exposedMetrics(metrics, prefixes), "\n")
		return exposed == documented
	})

	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// readmeMetrics returns the rows of the table, as "name type labels".
func readmeMetrics(readme string) []string {
	_, section, _ := strings.Cut(readme, "\n## Metrics\n")

	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| ?([a-z, ]*?) ?\\| .")
	var all []string
	for _, match := range row.FindAllStringSubmatch(section, -1) {
		all = append(all, strings.TrimSpace(strings.Join(match[1:], " ")))
	}
	slices.Sort(all)
	return all
}

// exposedMetrics returns the metrics in the text format, as "name type labels".
func exposedMetrics(metrics string, prefixes []string) (all []string) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	if err != nil {
		return []string{err.Error()}
	}

	prefixes = append([]string{"rowlock_", "http_server_"}, prefixes...)
	for name, family := range families {
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}

		labels := make(map[string]bool)
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				labels[label.GetName()] = true
			}
		}

		kind := strings.ToLower(family.GetType().String())
		all = append(all, strings.TrimSpace(name+" "+kind+" "+strings.Join(slices.Sorted(maps.Keys(labels)), ", ")))
	}

	slices.Sort(all)
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
