package counting_test

import (
	"maps"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// database applies decisions, as a repository does.
type database struct {
	values map[counting.ItemID]int64
	keys   map[counting.KeyID]counting.Taken
}

func (d *database) state() counting.State {
	return counting.State{Values: maps.Clone(d.values), Keys: maps.Clone(d.keys), Now: time.Unix(1, 0)}
}

func (d *database) write(t *rapid.T, decision counting.Decision) {
	for _, w := range decision.Writes {
		before, exists := d.values[w.ItemID]
		if exists == (w.Kind == counting.Insert) {
			t.Errorf("%+v is written, the count exists: %t", w, exists)
		}
		switch w.Kind {
		case counting.Remove:
			delete(d.values, w.ItemID)
			continue
		case counting.AddTo:
			if before+w.By != w.Value {
				t.Errorf("%+v is added to %d", w, before)
			}
		case counting.Replace, counting.Insert:
		}
		d.values[w.ItemID] = w.Value
	}
	maps.Copy(d.keys, decision.Keys)
}

// drawRequest draws a request of few counts, values at the edges of int64, and few keys.
func drawRequest(t *rapid.T) counting.Request {
	ids := rapid.SampledFrom([]counting.ItemID{"a", "b", "c"})
	deltas := rapid.SampledFrom([]int64{1, -1, 5, math.MaxInt64, -math.MaxInt64, math.MaxInt64 - 1})
	r := counting.Request{
		Operation: rapid.SampledFrom([]counting.Operation{
			counting.Add, counting.Add, counting.Add, counting.Create, counting.Set, counting.Delete,
		}).Draw(t, "operation"),
		Key: counting.Key{
			Value:       rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(t, "key"),
			Caller:      rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "caller"),
			Fingerprint: [16]byte{byte(rapid.IntRange(0, 1).Draw(t, "fingerprint"))},
		},
	}
	changes := 1
	if r.Operation == counting.Add {
		r.CreateMissing = rapid.Bool().Draw(t, "create")
		changes = rapid.IntRange(1, 4).Draw(t, "changes")
	}
	for range changes {
		r.Changes = append(r.Changes, counting.Change{ItemID: ids.Draw(t, "id"), Delta: deltas.Draw(t, "delta")})
	}
	return r
}

// Requests that are decided together get the answers that they would have got one by one, and leave the same behind.
func TestDecideTogetherIsOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 12).Draw(t, "requests")
		start := rapid.MapOf(rapid.SampledFrom([]counting.ItemID{"a", "b", "c"}),
			rapid.SampledFrom([]int64{0, 7, math.MaxInt64, math.MinInt64})).Draw(t, "start")

		together := database{maps.Clone(start), map[counting.KeyID]counting.Taken{}}
		single := database{maps.Clone(start), map[counting.KeyID]counting.Taken{}}
		decision := counting.Decide(requests, together.state())
		together.write(t, decision)
		for i, r := range requests {
			one := counting.Decide([]counting.Request{r}, single.state())
			single.write(t, one)
			if !reflect.DeepEqual(one.Answers[0], decision.Answers[i]) {
				t.Fatalf("request %d, %+v: %+v together, %+v alone", i, r, decision.Answers[i], one.Answers[0])
			}
		}
		if !reflect.DeepEqual(together, single) {
			t.Errorf("together they leave %+v, one by one %+v", together, single)
		}
	})
}

// A request that names a locked count is held up whole, takes no key, and holds up no other request.
func TestDecideLeavesLockedCounts(t *testing.T) {
	t.Parallel()
	change := func(ids ...counting.ItemID) (changes []counting.Change) {
		for _, id := range ids {
			changes = append(changes, counting.Change{ItemID: id, Delta: 1})
		}
		return changes
	}
	key := counting.Key{Value: "k"}
	d := counting.Decide([]counting.Request{
		{Changes: change("a", "locked"), Key: key},
		{Changes: change("locked", "missing")},
		{Operation: counting.Set, Changes: change("locked")},
		{Changes: change("a")},
	}, counting.State{
		Values: map[counting.ItemID]int64{"a": 1}, Locked: map[counting.ItemID]bool{"locked": true},
	})

	for i, a := range d.Answers {
		if a.HeldUp != (i < 3) {
			t.Errorf("request %d got %+v", i, a)
		}
	}
	if len(d.Keys) != 0 {
		t.Errorf("the keys %v were taken", d.Keys)
	}
	want := []counting.Write{{ItemID: "a", Kind: counting.AddTo, Value: 2, By: 1}}
	if !reflect.DeepEqual(d.Writes, want) {
		t.Errorf("%+v is written, want %+v", d.Writes, want)
	}
}
