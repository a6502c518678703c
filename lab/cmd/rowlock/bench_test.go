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
	_, err := localmaria.Start(t.Context(), localmaria.Options{Parent: dir + "/none"})
	if errors.Is(err, localmaria.ErrNotInstalled) && config.Environ()["CI"] != "true" {
		t.Skip(err)
	}

	r := start(t, nil, "bench", "events", "--quick", "--out", "", "--only", "claim-few,mariadb-work-4")
	if status := r.end(); status != 0 {
		t.Fatalf("it ended with status %d", status)
	}

	if !strings.Contains(r.output(), "sum exact") {
		t.Error("the sum of what the workers did is not exact")
	}
}
