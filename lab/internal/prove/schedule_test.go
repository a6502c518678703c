package prove

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	if _, err := Schedule(7, time.Minute, []string{"earthquake"}); err == nil || !strings.Contains(err.Error(), windowKill) {
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
	k := newKeys("w", 1)
	random := newRandom(1)
	first := k.pick(random)
	for range history.MaxOps - 1 {
		if got := k.pick(random); got != first {
			t.Fatalf("%s was replaced by %s too early", first.name, got.name)
		}
	}
	second := k.pick(random)
	if second == first || k.use(first) || !k.use(second) {
		t.Error("a key has more operations than the checker can take, or is not used while it has less")
	}
	for range history.MaxUnknown {
		k.note(second, history.Unknown)
	}
	if third := k.pick(random); third == second || len(k.all()) != 3 {
		t.Errorf("a key with %d unknown operations is used on; %d keys", history.MaxUnknown, len(k.all()))
	}
}

// What was created once is not created again; what could not be is tried again.
func TestEnsure(t *testing.T) {
	t.Parallel()
	var k key
	for try, want := range []int32{0, 7, 7} {
		if got := k.ensure(func() (int32, bool) { return []int32{0, 7, 9}[try], try == 0 }); got != want {
			t.Errorf("try %d: %d, want %d", try, got, want)
		}
	}
}

// A change counts when its lease ended while another transaction held its row.
func TestLateClaims(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	late := func(until, call int, o history.Outcome, n int64) lateChange {
		return lateChange{at(until), at(call), o, n}
	}
	for name, tc := range map[string]struct {
		change           lateChange
		refused, applied int
	}{
		"refused":             {late(500, 400, history.OK, 0), 1, 0},
		"applied":             {late(500, 400, history.OK, 1), 0, 1},
		"over after the lock": {late(1500, 400, history.OK, 1), 0, 0},
		"sent before it":      {late(500, 50, history.OK, 1), 0, 0},
		"not in time":         {late(500, 400, history.NotApplied, 0), 0, 0},
		"over as it ended":    {late(995, 400, history.OK, 1), 0, 0},
	} {
		l := &lateClaims{holds: []*lateHold{{locked: at(100), released: at(1000), changes: []lateChange{tc.change}}}}
		if refused, applied := l.waited(); refused != tc.refused || applied != tc.applied {
			t.Errorf("%s: %d refused, %d applied", name, refused, applied)
		}
	}
}
