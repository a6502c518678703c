package coalesce_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
)

// startStages starts coalescers that share a gate, each over a table of its own whose statements take their time.
func startStages(t *testing.T, n int) (tables []*table, stages []*coalescer) {
	t.Helper()
	gate := coalesce.NewGate()
	for range n {
		tbl := newTable("a", "held")
		tbl.before = func([]add) { time.Sleep(statement) }
		cfg := tbl.config()
		cfg.Gate = gate
		tables, stages = append(tables, tbl), append(stages, start(t, cfg))
	}
	return tables, stages
}

// Clients that pass several stages pass them together, though one of them comes first.
func TestCallersPassTheStagesOfAGateTogether(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 8
	synctest.Test(t, func(t *testing.T) {
		tables, stages := startStages(t, 3)
		var clients sync.WaitGroup
		for i := range callers {
			clients.Go(func() {
				time.Sleep(min(1, time.Duration(i)))
				for range rounds {
					for _, c := range stages {
						if _, err := c.Do(t.Context(), add{id: i, key: "a", n: 1}); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(pause)
				}
			})
		}
		clients.Wait()
		for stage, tbl := range tables {
			sizes := tbl.groupSizes()
			if slices.Min(sizes[2:rounds-1]) < callers { // until they have met, and after the first has left
				t.Errorf("stage %d: groups of %v, want %d from the third on", stage, sizes, callers)
			}
		}
	})
}

// A group that waits for a locked row gives its turn away: the first caller of another stage waits a little, and the
// next ones not at all.
func TestLockedRowOfAStageDelaysNoOther(t *testing.T) {
	t.Parallel()
	const longestTurn = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		tables, stages := startStages(t, 2)
		tables[0].hold("held")
		locked := send(t.Context(), stages[0], add{key: "held", n: 1})
		for _, want := range []time.Duration{longestTurn + statement, statement} {
			if got := <-doAsync(t.Context(), stages[1], add{key: "a", n: 1}); got.err != nil || got.after != want {
				t.Errorf("answered %v after %v, want no error after %v", got.err, got.after, want)
			}
		}
		if got := <-locked[0]; !errors.Is(got.err, coalesce.ErrLocked) {
			t.Errorf("locked row: %v, want ErrLocked", got.err)
		}
	})
}
