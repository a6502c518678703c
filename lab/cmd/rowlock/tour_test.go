package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/waittest"
)

// pasteWhatIsPrinted runs the lines that up prints, several times.
func pasteWhatIsPrinted(t *testing.T, tab table) {
	t.Helper()
	for i := 1; i <= 3; i++ {
		if got, want := strings.TrimSpace(
			shell(t, tab.try["counts"]),
		), fmt.Sprintf(`{"itemId":"apples","value":%d}`, i); got != want {
			t.Fatalf("paste %d printed %s, want %s", i, got, want)
		}
	}
	for _, want := range []string{`"status":"SUCCEEDED"`, "Idempotent-Replayed: true"} {
		if got := shell(t, tab.try["payments"]); !strings.Contains(got, want) {
			t.Errorf("the payment printed %s, want %s", got, want)
		}
	}
	for _, added := range []string{"ADDED 2", "ADDED 0"} {
		if got, want := shell(t, tab.try["iidy"]), added+"\na.txt 0\nb.txt 0\n"; got != want {
			t.Errorf("the list printed %q, want %q", got, want)
		}
	}
	for range 2 {
		if got, want := strings.TrimSpace(
			shell(t, tab.try["pyggpot"]),
		), `{"coins":[{"kind":"GOLD","count":1}]}`; got != want {
			t.Errorf("the coins printed %s, want %s", got, want)
		}
	}
	if got := shell(t, tab.try["events"]); !strings.Contains(got, `{"id":2}`) || !strings.Contains(got, `{"count":2}`) {
		t.Errorf("the events printed %s", got)
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
	script, _, found := strings.Cut(script, "\n```\n")
	if got := shell(
		t,
		strings.ReplaceAll(script, "http://127.0.0.1:8083", url),
	); !found ||
		!strings.Contains(got, `"currentValue":101`) {
		t.Errorf("README's tour ends with:\n%s", got)
	}
}
