package prove

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
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

// Every window leaves a second of quiet at both ends, whatever its length, and switches
// off what it switches on; a double dose is one.
func TestWindows(t *testing.T) {
	t.Parallel()
	off := map[fault.Action]fault.Action{
		fault.LatencyOn: fault.LatencyOff, fault.BlackHoleOn: fault.BlackHoleOff, fault.StopOn: fault.StopOff,
		fault.LockOn: fault.LockOff, fault.ExhaustOn: fault.ExhaustOff,
	}
	for _, l := range []time.Duration{8 * time.Second, 20 * time.Second, 150 * time.Second} {
		windows, err := Schedule(1, l, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range windows {
			double := w.doubled(1)
			if w.Name != windowNone && w.Name != "slow" && len(double.Events) <= len(w.Events) {
				t.Errorf("%s: %d faults, the double dose has %d", w.Name, len(w.Events), len(double.Events))
			}
			if w.NeedsOwner() != (w.Name == "restart") {
				t.Errorf("%s needs the server's owner: %t", w.Name, w.NeedsOwner())
			}
			for _, one := range []Window{w, double} {
				on := map[fault.Action]int{}
				for i, e := range one.Events {
					if e.At < quiet || e.At > l-quiet+l/8 || i > 0 && e.At < one.Events[i-1].At {
						t.Errorf("%s of %s: %s", one.Name, l, e)
					}
					on[e.Action]++
				}
				for start, end := range off {
					if on[start] != on[end] {
						t.Errorf("%s: %d times %s, %d times %s", one.Name, on[start], start, on[end], end)
					}
				}
			}
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	k := newKeys("w", 1, nil)
	random := newRandom(1)
	first := k.pick(t.Context(), random)
	for range history.MaxOps - 1 {
		if got := k.pick(t.Context(), random); got != first {
			t.Fatalf("%s was replaced by %s too early", first.name, got.name)
		}
	}
	second := k.pick(t.Context(), random)
	if second == first || k.use(first) || !k.use(second) {
		t.Error("a key has more operations than the checker can take, or is not used while it has less")
	}
	for range history.MaxUnknown {
		k.note(second, history.Unknown)
	}
	if third := k.pick(t.Context(), random); third == second || len(k.made) != 3 {
		t.Errorf("a key with %d unknown operations is used on; %d keys", history.MaxUnknown, len(k.made))
	}
}

// What was created once is not created again; what was not applied is tried again, and
// what failed otherwise is not.
func TestEnsure(t *testing.T) {
	t.Parallel()
	var made, failed key
	for try, want := range []bool{false, true, true} {
		got := made.ensure(func() (int32, error) {
			if try == 0 {
				return 1, &rowlock.Error{Code: rowlock.ErrNotApplied}
			}
			return 1, nil
		})
		if got != want {
			t.Errorf("try %d: %t, want %t", try, got, want)
		}
	}
	for try := range 2 {
		if failed.ensure(func() (int32, error) { return int32(try), &rowlock.Error{Code: rowlock.ErrInternal} }) {
			t.Errorf("try %d: a key whose creation failed is worked on", try)
		}
	}
}

// A change counts when its lease ended while another transaction locked its row.
func TestLateClaims(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	late := func(until, call int, n int64) lateChange { return lateChange{at(until), at(call), n} }
	for name, tc := range map[string]struct {
		change           lateChange
		refused, applied int
	}{
		"refused":             {late(500, 400, 0), 1, 0},
		"applied":             {late(500, 400, 1), 0, 1},
		"over after the lock": {late(1500, 400, 1), 0, 0},
		"sent before it":      {late(500, 50, 1), 0, 0},
		"over as it ended":    {late(995, 400, 1), 0, 0},
	} {
		l := &lateClaims{locks: []*lateLock{{locked: at(100), unlocked: at(1000), changes: []lateChange{tc.change}}}}
		if refused, applied := l.count(); refused != tc.refused || applied != tc.applied {
			t.Errorf("%s: %d refused, %d applied", name, refused, applied)
		}
	}
}

// A batch's number says something about an item when it is that of none or of all.
func TestItemAnswer(t *testing.T) {
	t.Parallel()
	h := history.New(time.Now())
	batch := history.ItemInput{Verb: history.ItemAdd, Items: 3}
	for n, want := range map[int64]history.ItemOutput{0: {Known: true}, 1: {}, 2: {N: 1, Known: true}} {
		if got := (itemAnswer{n: n}).of(batch, 0, h); got != want {
			t.Errorf("%d of 2 says %+v, want %+v", n, got, want)
		}
	}
	page := itemAnswer{Claim: api.Claim{Entries: []api.Entry{{Item: "b", Attempts: 7}}}}
	for item, want := range []int64{history.Absent, 7} {
		if got := page.of(history.ItemInput{Verb: history.ItemPage}, item, h); got.N != want || !got.Known {
			t.Errorf("the page says %+v of item %d", got, item)
		}
	}
}
