package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// pasteWhatIsPrinted runs the lines that up prints, each as often as it has an expected output.
func pasteWhatIsPrinted(t *testing.T, tab table) {
	t.Helper()
	for _, s := range targets.All() {
		for i, want := range s.TryPrints {
			if got := shell(t, tab.try[s.Name]); !strings.Contains(got, want) {
				t.Errorf("%s: paste %d printed %s, want %s", s.Name, i+1, got, want)
			}
		}
	}
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/events`).FindString(tab.try["events"])
	waittest.Eventually(t, "a worker gives event 2 a value", func() bool {
		return shell(t, "curl -s "+address+"/2") != "{\"id\":2,\"value\":null}\n"
	})
}

// runTour runs the tour of README at the address of counts, and looks how it ends.
func runTour(t *testing.T, url string) {
	t.Helper()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Tour\n")
	_, script, _ := strings.Cut(section, "\n```sh\n")
	script, _, _ = strings.Cut(script, "\n```\n")
	got := shell(t, strings.ReplaceAll(script, "http://127.0.0.1:8083", url))
	if !strings.Contains(got, `"currentValue":101`) {
		t.Errorf("README's tour ends with:\n%s", got)
	}
}
