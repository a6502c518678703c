package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Rules and dashboards ask for metrics that a service's README documents; there, a test holds them against a running replica.
func TestRulesAndDashboardsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	documented := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:counter|gauge|histogram) \\|")
	var known []string
	for _, readme := range glob(t, "../../services/*/README.md") {
		for _, match := range documented.FindAllStringSubmatch(read(t, readme), -1) {
			known = append(known, match[1])
		}
	}
	if len(known) < 20 {
		t.Fatalf("the READMEs document %v", known)
	}
	metric := regexp.MustCompile(`\b(?:rowlock|http_server|payments|counts|iidy|events|pyggpot)_[a-z_]+`)
	for _, file := range slices.Concat(glob(t, umbrella+"/rules/*.yaml"), glob(t, umbrella+"/dashboards/*.json")) {
		found := 0
		// Of rules, expressions may have many lines; the rest of them are comments and what people read. Values of labels are no names.
		notExpr := regexp.MustCompile(`^ *(#|summary:)`)
		label := regexp.MustCompile(`=~?"[^"]*"`)
		for line := range strings.SplitSeq(read(t, file), "\n") {
			if strings.HasSuffix(file, ".json") && !strings.Contains(line, "expr") || notExpr.MatchString(line) {
				continue
			}
			line = label.ReplaceAllString(line, "")
			for _, name := range metric.FindAllString(line, -1) {
				found++
				base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
				if !slices.Contains(known, name) && !slices.Contains(known, base) {
					t.Errorf("%s asks for %s, which no service has", file, name)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s asks for nothing", file)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
