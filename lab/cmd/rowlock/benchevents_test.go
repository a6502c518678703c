package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localmaria"
)

// The bench of events, once through what differs from the other benches: two sizes, workers, MariaDB.
func TestBenchOfEvents(t *testing.T) {
	t.Parallel()

	dir := folder(t)
	// Without it the bench leaves MariaDB out; in CI it must not.
	_, err := localmaria.Start(t.Context(), localmaria.Options{Dir: dir + "/none/none"})
	if errors.Is(err, localmaria.ErrNotInstalled) && config.Environ()["CI"] != "true" {
		t.Skip(err)
	}

	r := start(t, nil, "bench", "events", "--quick", "--out", "", "--only", "claim-few,work-4,mariadb-add,mariadb-work-4")
	if status := r.end(); status != 0 {
		t.Fatalf("it ended with status %d", status)
	}

	out := r.output()
	for text, times := range map[string]int{
		"sum exact": 3, "NOT JUDGED": 1, "NOT MEASURED": 3, "in 3 of 3 runs": 1,
	} {
		if got := strings.Count(out, text); got != times {
			t.Errorf("%q stands there %d times, want %d", text, got, times)
		}
	}
}
