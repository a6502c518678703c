package prove

import (
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// The windows on a Citus cluster run on one cluster of their own, never with others; every event has ended before the
// last second, and a worker that was killed is back before the next one is killed.
func TestWindowsOnCitus(t *testing.T) {
	t.Parallel()
	for _, l := range []time.Duration{8 * time.Second, 60 * time.Second} {
		windows, err := Schedule(1, l, append(OnCitus(), windowFailover, windowKill))
		if err != nil {
			t.Fatal(err)
		}
		groups := Groups(windows)
		if len(groups) != 3 || groups[1][0].Name != windowFailover || len(groups[2]) != len(OnCitus()) {
			t.Errorf("the windows run as %v", groups)
		}
		for _, w := range groups[2] {
			did := map[fault.Action]int{}
			end := time.Duration(0)
			for _, e := range append(w.Events, w.doubled(1).Events...) {
				if e.At < quiet || e.At+e.For > w.For-quiet {
					t.Errorf("%s: %s for %s", w.Name, e, e.For)
				}
			}
			for _, e := range w.Events {
				if e.Action == fault.KillWorker && (e.At < end || e.For == 0) {
					t.Errorf("%s: %s for %s, and a worker is away until %s", w.Name, e, e.For, end)
				}
				did[e.Action]++
				end = e.At + e.For
			}
			if w.Servers() != Distributed || !w.NeedsOwner() || w.shape.maria || w.shape.pooler {
				t.Errorf("%s does not run on a cluster of its own: %+v", w.Name, w.shape)
			}
			want := map[string]fault.Action{
				windowCitusWorker: fault.KillWorker, windowCitusCoordinator: fault.RestartDB, windowCitusReplies: fault.CutWorker,
				windowCitusMove: fault.MoveShard, windowCitusGrow: fault.AddWorker,
			}[w.Name]
			if want != "" && did[want] == 0 || want == "" && len(did) > 0 {
				t.Errorf("%s: %v, want %q", w.Name, did, want)
			}
		}
	}
	for _, name := range OnCitus() {
		if slices.Contains(Names(), name) || slices.Contains(NamedOnly(), name) {
			t.Errorf("%s is in a usual run too", name)
		}
	}
}

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
		services.Counts: {resolved}, services.Iidy: {commit, resolved},
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
		want := name == services.Counts || name == services.Iidy
		if got := RunsOnCitus(name); got != want {
			t.Errorf("%s takes part on Citus: %t, want %t", name, got, want)
		}
	}
	one, there := kinds[services.Counts], kinds[services.Counts].forCitus()
	if slices.Equal(there.writes, one.writes) || there.changes == nil || there.prepare != nil {
		t.Errorf("counts on Citus is %+v", there)
	}
}
