package prove

import (
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// Window citus-replies misses each effect that a service lacks: of both also an answer that was resolved, and of iidy a
// COMMIT of a worker that was cut.
func TestRepliesOnCitus(t *testing.T) {
	t.Parallel()
	windows, err := Schedule(1, 8*time.Second, []string{windowCitusReplies})
	if err != nil {
		t.Fatal(err)
	}
	const cut, reply, commit = string(fault.CutWorker), string(fault.CutReply), string(fault.CutWorkerCommit)
	for service, more := range map[string][]string{
		targets.Counts: {resolved}, targets.Iidy: {commit, resolved},
	} {
		for _, lacks := range []string{cut, reply, commit, resolved, "nothing"} {
			r := ServiceResult{
				Service: service, OK: 100, Signs: map[string]int{resolved: 1},
				Done: map[fault.Action]int{fault.CutWorker: 5, fault.CutReply: 5, fault.CutWorkerCommit: 1},
			}
			delete(r.Done, fault.Action(lacks))
			delete(r.Signs, lacks)
			var missed, want []string
			for _, c := range windows[0].judgeEffects(r) {
				if !c.OK {
					missed = append(missed, c.Name)
				}
			}
			if lacks == cut || lacks == reply || slices.Contains(more, lacks) {
				want = []string{lacks}
			}
			if !slices.Equal(missed, want) {
				t.Errorf("%s without %q misses %q", service, lacks, missed)
			}
		}
	}
}

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
	one, there := kinds[targets.Counts], kinds[targets.Counts].forCitus()
	if slices.Equal(there.writes, one.writes) || there.changes == nil || there.prepare != nil {
		t.Errorf("counts on Citus is %+v", there)
	}
}
