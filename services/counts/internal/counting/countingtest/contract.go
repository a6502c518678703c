package countingtest

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

func create(t *testing.T, repo Repo) {
	ctx := t.Context()
	for id, initial := range map[counting.ItemID]int64{"zero": 0, "max": math.MaxInt64, "min": math.MinInt64} {
		v := must[counting.CountValue](t)(repo.Create(ctx, id, initial))
		if v.ItemID != id || v.Current != initial || time.Since(v.UpdatedAt).Abs() > time.Minute {
			t.Errorf("created %+v", v)
		}
		if found := must[counting.CountValue](t)(repo.Find(ctx, id)); found.Current != initial ||
			!found.UpdatedAt.Equal(v.UpdatedAt) {
			t.Errorf("created %+v, found %+v", v, found)
		}
	}

	_, err := repo.Create(ctx, "zero", 5)
	wantErr(t, err, counting.ErrExists)
	wantValue(ctx, t, repo, "zero", 0)
	_, err = repo.Find(ctx, "absent")
	wantErr(t, err, counting.ErrNotFound)
}

func addChanges(t *testing.T, repo Repo) {
	ctx := t.Context()
	before := must[counting.CountValue](t)(repo.Create(ctx, "a", 10))
	for _, step := range []struct{ delta, want int64 }{{1, 11}, {-20, -9}, {9, 0}, {math.MaxInt64, math.MaxInt64}} {
		if got := must[int64](t)(Add(ctx, repo, "a", step.delta)); got != step.want {
			t.Errorf("add %d gave %d, want %d", step.delta, got, step.want)
		}
	}
	after := must[counting.CountValue](t)(repo.Find(ctx, "a"))
	if !after.UpdatedAt.After(before.UpdatedAt) {
		t.Errorf("changed at %v, created at %v: a change must move the time", after.UpdatedAt, before.UpdatedAt)
	}
}

func set(t *testing.T, repo Repo) {
	ctx := t.Context()
	before := must[counting.CountValue](t)(repo.Create(ctx, "a", 10))
	for _, value := range []int64{0, math.MinInt64, math.MaxInt64, 7, 7} {
		v := must[counting.CountValue](t)(Set(ctx, repo, "a", value))
		if v.ItemID != "a" || v.Current != value || !v.UpdatedAt.After(before.UpdatedAt) {
			t.Errorf("set %d gave %+v after %+v", value, v, before)
		}
		before = v
		wantValue(ctx, t, repo, "a", value)
	}
}

func remove(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 10))
	if err := repo.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	_, err := repo.Find(ctx, "a")
	wantErr(t, err, counting.ErrNotFound)
	wantErr(t, repo.Delete(ctx, "a"), counting.ErrNotFound)
	if v := must[counting.CountValue](t)(repo.Create(ctx, "a", 3)); v.Current != 3 {
		t.Errorf("created again with %d, want 3", v.Current)
	}
}

// hostileIDs: ids are stored byte by byte, and different ids are different counts.
func hostileIDs(t *testing.T, repo Repo) {
	ctx := t.Context()
	ids := []counting.ItemID{
		"'; DROP TABLE counts.count_values; --",
		"%",
		"_",
		`\`,
		"$1",
		"{a,b}",
		`{"a"}`,
		`"`,
		"NULL",
		"null",
		" ",
		"a ",
		" a",
		"A",
		"a",
		"é",
		"e\u0301",
		"\u202eabc",
		"🦀",
		"a/b",
		"..",
		"100%",
		"a+b",
		";",
		"a,b",
		counting.ItemID(strings.Repeat("x", counting.MaxItemIDBytes)),
	}

	for i, id := range ids {
		must[counting.CountValue](t)(repo.Create(ctx, id, int64(i)*100))
	}
	for i, id := range ids {
		if got := must[int64](t)(Add(ctx, repo, id, 1)); got != int64(i)*100+1 {
			t.Errorf("%q is %d after its own change, want %d", id, got, i*100+1)
		}
	}

	found := must[[]counting.CountValue](t)(repo.FindMany(ctx, append(ids, "absent")))
	if len(found) != len(ids) {
		t.Errorf("found %d of %d", len(found), len(ids))
	}
	for _, v := range found {
		if i := slices.Index(ids, v.ItemID); i < 0 || v.Current != int64(i)*100+1 {
			t.Errorf("found %+v", v)
		}
	}
}

func overflow(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "high", math.MaxInt64-1))
	must[counting.CountValue](t)(repo.Create(ctx, "low", math.MinInt64+1))
	before := must[counting.CountValue](t)(repo.Find(ctx, "high"))

	for id, delta := range map[counting.ItemID]int64{"high": 2, "low": -2} {
		_, err := Add(ctx, repo, id, delta)
		wantErr(t, err, counting.ErrOverflow)
	}

	if after := must[counting.CountValue](t)(repo.Find(ctx, "high")); after != before {
		t.Errorf("a refused change made %+v of %+v", after, before)
	}

	if got := must[int64](t)(Add(ctx, repo, "high", 1)); got != math.MaxInt64 {
		t.Errorf("up to the edge: %d", got)
	}
	if got := must[int64](t)(Add(ctx, repo, "low", -1)); got != math.MinInt64 {
		t.Errorf("down to the edge: %d", got)
	}
}

// endedContext: a caller that has left changes nothing.
func endedContext(t *testing.T, repo Repo) {
	must[counting.CountValue](t)(repo.Create(t.Context(), "a", 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Add(ctx, repo, "a", 1); err == nil {
		t.Error("add with an ended context succeeded")
	}
	if _, err := Set(ctx, repo, "a", 5); err == nil {
		t.Error("set with an ended context succeeded")
	}
	wantValue(t.Context(), t, repo, "a", 1)
}
