package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// pasteWhatIsPrinted tries what `up` shows of each service, again and again.
func pasteWhatIsPrinted(t *testing.T, tab table) {
	t.Helper()
	t.Log("the tour: what is printed works when it is pasted, again and again")
	for i := 1; i <= 3; i++ {
		if got, want := strings.TrimSpace(shell(t, tab.try["counts"])), fmt.Sprintf(`{"itemId":"apples","value":%d}`, i); got != want {
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
		if got, want := strings.TrimSpace(shell(t, tab.try["pyggpot"])), `{"coins":[{"kind":"GOLD","count":1}]}`; got != want {
			t.Errorf("the coins printed %s, want %s", got, want)
		}
	}
	if got := shell(t, tab.try["events"]); !strings.Contains(got, `{"id":2}`) || !strings.Contains(got, `{"count":2}`) {
		t.Errorf("the events printed %s", got)
	}
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/events`).FindString(tab.try["events"])
	looks := 0
	for shell(t, "curl -s "+address+"/2") == "{\"id\":2,\"value\":null}\n" { // until the worker has come to it
		if looks++; looks > 500 {
			t.Fatal("no worker has come to event 2")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// runTours runs the scripts in README's section of that name, and looks how each ends.
func runTours(t *testing.T, tab table) {
	t.Helper()
	if got := shell(t, tour(t, 8083, tab.try["counts"])); !strings.Contains(got, `"currentValue":101`) {
		t.Errorf("README's tour ends with:\n%s", got)
	}
	got := shell(t, tour(t, 8082, tab.try["payments"]))
	if strings.Count(got, "201 ") != 50 || strings.Count(got, `"status":"SUCCEEDED"`) != 1 {
		t.Errorf("README's tour of payments ends with:\n%s", got)
	}
	got = shell(t, tour(t, 8084, tab.try["iidy"]))
	if !strings.HasPrefix(got, "ADDED 100000\nitems 100000\nclaimed 8000\n") {
		t.Errorf("README's tour of iidy ends with:\n%s", got)
	}
	// The worker looks every 1 to 1.5 s, and the machine may be busy: the tour's two seconds become more.
	got = shell(t, strings.ReplaceAll(tour(t, 8085, tab.try["events"]), "sleep 2", "sleep 4"))
	if !regexp.MustCompile(`^\{"count":102\}\n\{"id":100,"value":"[a-z]+"\}\n$`).MatchString(got) {
		t.Errorf("README's tour of events ends with:\n%s", got)
	}
	// The first pot has two coins from what was pasted.
	got = shell(t, tour(t, 8081, tab.try["pyggpot"]))
	if !strings.Contains(got, `"pot_name":"Tour"`) || !strings.Contains(got, `"coins":[{"kind":"GOLD","count":102}]`) {
		t.Errorf("README's tour of pyggpot ends with:\n%s", got)
	}
}

// tour is the script in README's section of that name that speaks to port, sent to the address that try names instead.
func tour(t *testing.T, port int, try string) string {
	t.Helper()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	_, section, _ := strings.Cut(string(readme), "\n## Tour\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for script := range strings.SplitSeq(section, "\n```sh\n") {
		if script, _, found := strings.Cut(script, "\n```\n"); found && strings.Contains(script, address) {
			return strings.ReplaceAll(script, address, regexp.MustCompile(`http://[^/]+`).FindString(try))
		}
	}
	t.Fatalf("README has no tour at %s", address)
	return ""
}
