package prove

import (
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// A load has keys and batches, or none: counts takes neither on Citus.
func TestCountsOnCitus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		load countsLoad
		most int
	}{
		"Citus": {countsLoad{}, 1}, "one server": {countsLoad{sendsKeys: true}, 5},
	} {
		w := &counts{countsLoad: c.load, keys: newKeys(site{prefix: "w"}, activeCounters, nil)}
		random := newRandom(1)
		most, sets, keys := 0, 0, 0
		for range 1000 {
			r := w.draw(t.Context(), random)
			most = max(most, len(r.counters))
			if r.set {
				sets++
			}
			if r.key != "" || r.create {
				keys++
			}
		}
		if most != c.most || (keys > 0) != c.load.sendsKeys || sets == 0 {
			t.Errorf("%s: %d requests with keys, %d set a value, up to %d counters", name, keys, sets, most)
		}
	}
	for name := range kinds {
		want := name == targets.Counts || name == targets.Iidy
		if got := RunsOnCitus(name); got != want {
			t.Errorf("%s takes part on Citus: %t, want %t", name, got, want)
		}
	}
}
