package apptest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
)

// ReadmeShowsConfiguration demands that the README at path shows what --help
// prints for the configuration, to the letter. cfg is a pointer to its struct.
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

// ReadmeNamesMetrics demands that the table under "## Metrics" of the README at
// path names the metrics of a replica that begin with rowlock_, http_server_ or
// one of the service's own prefixes, with their types, all of them and no
// others. metrics is the text of /metrics; a vector shows there once it has a series.
func ReadmeNamesMetrics(t *testing.T, path, metrics string, prefixes ...string) {
	t.Helper()
	documented, exposed := readmeMetrics(read(t, path)), exposedMetrics(metrics, prefixes)
	if !slices.Equal(documented, exposed) || len(exposed) == 0 {
		t.Errorf("%s names\n%s\na replica has\n%s", path, strings.Join(documented, "\n"), strings.Join(exposed, "\n"))
	}
}

func readmeMetrics(readme string) []string {
	_, section, _ := strings.Cut(readme, "\n## Metrics\n")
	return found(section, regexp.MustCompile(`(?m)^\| `+"`"+`([a-z_]+)`+"`"+` \| (counter|gauge|histogram) \|`))
}

func exposedMetrics(metrics string, prefixes []string) []string {
	all := append([]string{"rowlock_", "http_server_"}, prefixes...)
	for i, prefix := range all {
		all[i] = regexp.QuoteMeta(prefix)
	}
	return found(metrics, regexp.MustCompile(`(?m)^# TYPE ((?:`+strings.Join(all, "|")+`)[a-z_]+) (counter|gauge|histogram)`))
}

// found returns "name type" of what a pattern matches, sorted, each once.
func found(text string, pattern *regexp.Regexp) []string {
	var all []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1]+" "+match[2])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
