package app_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// The README shows what --help prints, to the letter.
func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := config.Usage(&table, new(app.Config)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), table.String()) {
		t.Errorf("README.md lacks this table:\n%s", table.String())
	}
}

// The README's table names the metrics that a replica has, all of them and no others.
func TestReadmeNamesTheMetrics(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Metrics\n")
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	r.pay(t, "k", body(1, goodCard)).want(t, http.StatusCreated, "SUCCEEDED")
	metrics := get(t, r.admin+"/metrics").body
	documented := names(section, `(?m)^\| `+"`"+`([a-z_]+)`+"`"+` \| (?:counter|gauge|histogram) \|`)
	exposed := names(metrics, `(?m)^# TYPE ((?:payments|rowlock|http_server)_[a-z_]+) `)
	if !slices.Equal(documented, exposed) || len(exposed) == 0 {
		t.Errorf("README names\n%s\na replica has\n%s", strings.Join(documented, "\n"), strings.Join(exposed, "\n"))
	}
}

// names returns what a pattern's group matches, sorted, each once.
func names(text, pattern string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}
