//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"
)

// ofCounts selects the replicas of counts as a release of its own.
const ofCounts = component + "=serve,app.kubernetes.io/instance=counts"

// restart holds what was seen of a rollout: the most replicas at once, and the most that were ending.
type restart struct {
	took                    time.Duration
	replicas, ending, looks int
	err                     error
}

// restart replaces the replicas of counts at the chart's own pace, minReadySeconds: auto,
// and watches that while other chapters go on, because it takes most of a minute.
func (s *story) restart(t *T, upgrade func()) {
	t.Helper()
	old := map[string]bool{}
	for _, pod := range s.allPods(t, ofCounts) {
		old[pod.Name] = true
	}
	upgrade()
	s.restarting = make(chan restart, 1)
	go s.watch(context.WithoutCancel(t.Context()), old) // the chapter ends before it
}

// watch looks at counts' replicas until there are two, none of them old.
func (s *story) watch(ctx context.Context, old map[string]bool) {
	const limit = 3 * time.Minute // it takes most of one where the machine has time
	seen := restart{}
	for began := time.Now(); ; time.Sleep(300 * time.Millisecond) {
		all, err := s.podsOf(ctx, ofCounts)
		left, ending := 0, 0
		for _, pod := range all {
			if old[pod.Name] {
				left++
			}
			if pod.DeletionTimestamp != nil {
				ending++
			}
		}
		seen.took, seen.looks = time.Since(began), seen.looks+1
		seen.replicas, seen.ending = max(seen.replicas, len(all)), max(seen.ending, ending)
		switch {
		case err != nil:
			seen.err = err
		case left == 0 && len(all) == 2:
			seen.err = nil
		case seen.took > limit:
			seen.err = fmt.Errorf("there are %d replicas, %d of them old, %d ending", len(all), left, ending)
		default:
			continue
		}
		s.restarting <- seen
		return
	}
}

// restarted judges the restart. All replicas count, ending ones included, because each has connections. Another client
// chooses how many there are, so the budget is for two, one that comes before an old one goes, and one that is ending.
func (s *story) restarted(t *T) {
	seen := <-s.restarting
	if seen.err != nil {
		t.Fatalf("counts has not restarted in %s: %v", seen.took, seen.err)
	}
	t.Logf("counts restarts at its own pace in %.0f s: at most %d replicas of 2, and %d ending (%d looks)",
		seen.took.Seconds(), seen.replicas, seen.ending, seen.looks)
	if seen.replicas < 3 || seen.replicas > 4 {
		t.Errorf("there were at most %d replicas at once, the chart expects 3 or 4", seen.replicas)
	}
	if seen.ending != 1 {
		t.Errorf("at most %d replicas were ending at once, the chart expects 1", seen.ending)
	}
	run(t, "", s.helms[1], "uninstall", "counts", "--namespace", string(s.place), "--wait")
}
