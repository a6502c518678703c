package prove

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

func TestScheduleBySeed(t *testing.T) {
	t.Parallel()
	schedule := func(seed uint64, names ...string) (lines []string) {
		t.Helper()
		windows, err := Schedule(seed, 20*time.Second, names)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range windows {
			lines = append(lines, fmt.Sprint(w.Name, w.Events))
		}
		return lines
	}
	all := schedule(7)
	if len(all) != len(usual()) || !slices.Equal(all, schedule(7)) {
		t.Error("the same seed gives another schedule")
	}
	if slices.Equal(all, schedule(8)) {
		t.Error("another seed gives the same schedule")
	}
	for i, s := range usual() {
		if alone := schedule(7, s.name); len(alone) != 1 || alone[0] != all[i] {
			t.Errorf("%s alone is another window", s.name)
		}
	}
	_, err := Schedule(7, time.Minute, []string{"earthquake"})
	if err == nil || !strings.Contains(err.Error(), windowKill) {
		t.Errorf("an unknown window: %v", err)
	}
}

// A key is replaced when it has seen as many operations as the checker can take, or could
// not be created, which is tried once.
func TestKeys(t *testing.T) {
	t.Parallel()
	created := 0
	k := newKeys(site{prefix: "w"}, 1, func(context.Context, string) (int32, error) {
		if created++; created == 1 {
			return 0, &rowlock.Error{Code: rowlock.ErrNotApplied}
		}
		return 7, nil
	})
	random := newRandom(1)
	if failed := k.pick(t.Context(), random); failed != nil {
		t.Errorf("%s is worked on although it was not created", failed.name)
	}
	first := k.pick(t.Context(), random)
	for range history.MaxOps - 1 {
		if got := k.pick(t.Context(), random); got != first || got.id != 7 {
			t.Fatalf("%s was replaced by %s too early", first.name, got.name)
		}
	}
	second := k.pick(t.Context(), random)
	for range history.MaxUnknown {
		k.note(second, targets.Unknown)
	}
	if third := k.pick(t.Context(), random); second == first || third == second || created != 4 {
		t.Errorf("%s, %s and %s: %d keys were created", first.name, second.name, third.name, created)
	}
	read := 0
	err := k.each(func(*key) targets.Outcome { read++; return targets.OK })
	if err != nil || read != 3 {
		t.Errorf("%d of 3 keys are read at the end, %v", read, err)
	}
}
