package prove

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/iidy"
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
	if len(all) != len(Names()) || !slices.Equal(all, schedule(7)) {
		t.Error("the same seed gives another schedule")
	}
	if slices.Equal(all, schedule(8)) {
		t.Error("another seed gives the same schedule")
	}
	for i, name := range Names() {
		if alone := schedule(7, name); len(alone) != 1 || alone[0] != all[i] {
			t.Errorf("%s alone is another window", name)
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

// A change counts when its lease ended while another transaction locked its row.
func TestLateChanges(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, tc := range map[string]struct {
		change           lateChange
		refused, applied int
	}{
		"refused":             {lateChange{at(500), 0}, 1, 0},
		"applied":             {lateChange{at(500), 1}, 0, 1},
		"over after the lock": {lateChange{at(1500), 1}, 0, 0},
		"over as it ended":    {lateChange{at(995), 1}, 0, 0},
	} {
		locks := []*lateLock{{unlocked: at(1000), changes: []lateChange{tc.change}}}
		if refused, applied := countLate(locks); refused != tc.refused || applied != tc.applied {
			t.Errorf("%s: %d refused, %d applied", name, refused, applied)
		}
	}
}

// A batch's number says something about an item when it is that of none or of all.
func TestItemAnswer(t *testing.T) {
	t.Parallel()
	h := history.New(time.Now())
	batch := itemInput{verb: itemAdd, items: []string{"a", "b"}}
	for n, want := range map[int64]itemOutput{0: {known: true}, 1: {}, 2: {n: 1, known: true}} {
		if got := (itemAnswer{n: n}).of(batch, "a", h); got != want {
			t.Errorf("%d of 2 says %+v, want %+v", n, got, want)
		}
	}
	page := itemAnswer{Claim: api.Claim{Entries: []api.Entry{{Item: "b", Attempts: 7}}}}
	for name, want := range map[string]int64{"a": absent, "b": 7} {
		if got := page.of(itemInput{verb: itemPage}, name, h); got.n != want || !got.known {
			t.Errorf("the page says %+v of %s", got, name)
		}
	}
}
