package prove

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestScheduleBySeed(t *testing.T) {
	t.Parallel()
	const l = 20 * time.Second
	windows := func(seed uint64, names ...string) []Window {
		t.Helper()
		made, err := Schedule(seed, l, names)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	all := windows(7)
	if len(all) != len(Names()) || !reflect.DeepEqual(all, windows(7)) {
		t.Error("the same seed gives another schedule")
	}
	if reflect.DeepEqual(all, windows(8)) {
		t.Error("another seed gives the same schedule")
	}
	for i, w := range all {
		if alone := windows(7, w.Name); len(alone) != 1 || !reflect.DeepEqual(alone[0], all[i]) {
			t.Errorf("%s alone is another window", w.Name)
		}
	}
	if _, err := Schedule(7, l, []string{"earthquake"}); err == nil || !strings.Contains(err.Error(), "kill") {
		t.Errorf("an unknown window: %v", err)
	}
}

// Every window leaves a second of quiet at both ends, whatever its length, and
// switches off what it switches on; a double dose is one.
func TestWindows(t *testing.T) {
	t.Parallel()
	off := map[Action]Action{LatencyOn: LatencyOff, BlackHoleOn: BlackHoleOff, StopOn: StopOff, HoldOn: HoldOff, ExhaustOn: ExhaustOff}
	for _, l := range []time.Duration{8 * time.Second, 20 * time.Second, 150 * time.Second} {
		windows, err := Schedule(1, l, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range windows {
			double := w.again(1)
			if w.Name != "none" && w.Name != "slow" && len(double.Events) <= len(w.Events) {
				t.Errorf("%s: %d faults, the double dose has %d", w.Name, len(w.Events), len(double.Events))
			}
			for _, one := range []Window{w, double} {
				on := map[Action]int{}
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
	for range maxOps - 1 {
		if got := k.pick(random); got != first {
			t.Fatalf("%s was replaced by %s too early", first, got)
		}
	}
	second := k.pick(random)
	if second == first {
		t.Error("a key has more operations than the checker can take")
	}
	for range maxUnknown {
		k.unknown(second)
	}
	if !k.use(k.pick(random)) || k.use(first) {
		t.Error("a key is used on after it was replaced, or is not used while it is not")
	}
	if third := k.pick(random); third == second || len(k.all()) != 3 {
		t.Errorf("a key with %d unknown operations is used on; keys %v", maxUnknown, k.all())
	}
}

// What is there once is not made again; what could not be made is tried again.
func TestFirsts(t *testing.T) {
	t.Parallel()
	var f firsts[int]
	for try, want := range []int{0, 7, 7} {
		got := f.get("a", func() (int, bool) { return []int{0, 7, 9}[try], try > 0 })
		if got != want {
			t.Errorf("try %d: %d, want %d", try, got, want)
		}
	}
	f.get("b", func() (int, bool) { return 0, false })
	if all := f.all(); len(all) != 1 || all["a"] != 7 {
		t.Errorf("%v", all)
	}
}
