package attempttest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

func oneItem(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	ctx := t.Context()
	_, err := repo.Get(ctx, list, "a")
	wantErr(t, err, attempt.ErrNotFound)
	f.one(attempt.Increment, "a", "", 0)
	f.one(attempt.Delete, "a", "", 0)
	f.one(attempt.Add, "a", "", 1)
	f.one(attempt.Add, "a", "", 0)
	f.one(attempt.Increment, "a", "", 1)
	f.one(attempt.Add, "a", "", 0) // attempts stay
	if got := must[int64](t)(repo.Get(ctx, list, "a")); got != 1 {
		t.Errorf("a has %d attempts, want 1", got)
	}
	_, err = repo.Get(ctx, "another list", "a")
	wantErr(t, err, attempt.ErrNotFound)
	for l, want := range map[attempt.List]bool{list: true, "another list": false} {
		if got := must[bool](t)(repo.Exists(ctx, l)); got != want {
			t.Errorf("%q exists: %t", l, got)
		}
	}
	f.one(attempt.Delete, "a", "", 1)
	f.entries()
}

func batches(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	f.many(attempt.Add, "", 3, "c", "a", "b", "a", "c")
	f.many(attempt.Add, "", 1, "b", "d")
	f.many(attempt.Increment, "", 2, "d", "b", "nothing", "b")
	f.entries(attempt.Entry{Item: "a"}, attempt.Entry{Item: "b", Attempts: 1}, attempt.Entry{Item: "c"}, attempt.Entry{Item: "d", Attempts: 1})
	f.many(attempt.Delete, "", 2, "d", "nothing", "a", "a")
	f.entries(attempt.Entry{Item: "b", Attempts: 1}, attempt.Entry{Item: "c"})
	if got := must[int64](t)(repo.Many(t.Context(), attempt.Delete, "another list", attempt.ItemsOf("b"), "")); got != 0 {
		t.Errorf("deleted %d from a list that is not there", got)
	}
}

// newAndOld: however many batches were all new, the next one may hold what is there.
func newAndOld(t *testing.T, repo attempt.Repository) {
	ctx := t.Context()
	all := numbered(60)
	for _, c := range []struct {
		items []attempt.Item
		want  int64
	}{
		{all[:10], 10},
		{all[10:20], 10},
		{all[15:30], 10},
		{all[:30], 0},
		{all[30:40], 10},
		{all[25:50], 10},
		{all[50:], 10},
		{slices.Concat(all[:5], all[:5]), 0},
	} {
		if n := must[int64](t)(repo.Many(ctx, attempt.Add, list, attempt.ItemsOf(c.items...), "")); n != c.want {
			t.Errorf("%d of %s to %s were new, want %d", n, c.items[0], c.items[len(c.items)-1], c.want)
		}
		must[int64](t)(repo.Many(ctx, attempt.Increment, list, attempt.ItemsOf(c.items[0]), ""))
	}
	var attempts int64
	entries := must[[]attempt.Entry](t)(repo.Page(ctx, list, "", attempt.MaxPage))
	for _, e := range entries {
		attempts += e.Attempts
	}
	if len(entries) != len(all) || attempts != 8 {
		t.Errorf("%d items with %d attempts, want %d with 8", len(entries), attempts, len(all))
	}
}

// hostile items must make the round trip byte by byte and stay apart.
func hostile() []attempt.Item {
	return []attempt.Item{
		" ", " a", "%", "'; DROP TABLE iidy.lists; --", "$1", "..", "A", "NULL", `\`, `\N`, `\.`, "_", "a", "a ", "a b 7", "a\tb", "a+b", "a/b",
		"{a,b}", `{"a"}`, "e\u0301", "é", "\u202eabc", "\ufeffa", "🦀", attempt.Item(strings.Repeat("x", attempt.MaxBytes-len(list))),
	}
}

func hostileItems(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	items := hostile()
	var want []attempt.Entry
	for _, item := range items {
		want = append(want, attempt.Entry{Item: item, Attempts: 2})
	}
	slices.SortFunc(want, func(a, b attempt.Entry) int { return strings.Compare(string(a.Item), string(b.Item)) })
	f.many(attempt.Add, "", int64(len(items)), items...)
	for _, item := range items {
		f.one(attempt.Add, item, "", 0)
		f.one(attempt.Increment, item, "", 1)
	}
	f.many(attempt.Increment, "", int64(len(items)), items...)
	f.entries(want...)
	for _, item := range items {
		if got := must[int64](t)(repo.Get(t.Context(), list, item)); got != 2 {
			t.Errorf("%q has %d attempts", item, got)
		}
	}
	f.claim(attempt.MaxPage, time.Minute, itemsOf(want)...)
	if got := must[int64](t)(repo.Stage(t.Context(), attempt.Delete, list, whole(items...), "")); got != int64(len(items)) {
		t.Errorf("deleted %d of %d", got, len(items))
	}
}

func pages(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	items := []attempt.Item{"B", "a", "b", "c", "é", "🦀"}
	f.many(attempt.Add, "", int64(len(items)), items...)
	var got []attempt.Item
	for after := ""; ; {
		entries := must[[]attempt.Entry](t)(repo.Page(t.Context(), list, after, 2))
		if len(entries) == 0 {
			break
		}
		got = append(got, itemsOf(entries)...)
		after = string(entries[len(entries)-1].Item)
	}
	if !slices.Equal(got, items) {
		t.Errorf("paged %q, want %q", got, items)
	}
	for after, want := range map[string]attempt.Item{"0": "B", "a0": "b", "bb": "c"} { // a place between two items
		if e := must[[]attempt.Entry](t)(repo.Page(t.Context(), list, after, 1)); len(e) != 1 || e[0].Item != want {
			t.Errorf("after %q comes %v, want %q", after, e, want)
		}
	}
}

func progress(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	if got := must[attempt.Progress](t)(repo.Progress(t.Context(), list)); got != (attempt.Progress{}) {
		t.Errorf("an empty list: %+v", got)
	}
	items := []attempt.Item{"a", "b", "c", "d", "e", "f", "g", "h"}
	f.many(attempt.Add, "", 8, items...)
	for i := range 7 {
		f.many(attempt.Increment, "", int64(len(items[i+1:])), items[i+1:]...)
	}
	f.claim(3, time.Minute, "a", "b", "c")
	want := attempt.Progress{Items: 8, Claimed: 3, Attempts: attempt.Buckets{1, 1, 1, 1, 1, 3}}
	if got := must[attempt.Progress](t)(repo.Progress(t.Context(), list)); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func claims(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	f.claim(5, time.Minute) // nothing is there
	f.many(attempt.Add, "", 5, "e", "d", "c", "b", "a")
	f.one(attempt.Increment, "b", "", 1)
	before := time.Now()
	l := must[attempt.Lease](t)(repo.Claim(t.Context(), list, 2, time.Minute))
	if want := []attempt.Entry{{Item: "a"}, {Item: "b", Attempts: 1}}; !slices.Equal(l.Entries, want) {
		t.Errorf("claimed %v, want %v", l.Entries, want)
	}
	if _, err := attempt.NewClaim(string(l.Claim)); err != nil {
		t.Error(err)
	}
	if l.Until.Before(before.Add(50*time.Second)) || l.Until.After(time.Now().Add(70*time.Second)) || l.Until.Location() != time.UTC {
		t.Errorf("a lease of a minute from %s is over at %s", before, l.Until)
	}
	f.claim(2, time.Minute, "c", "d")
	f.one(attempt.Add, "aa", "", 1) // a new one goes first
	f.claim(10, time.Minute, "aa", "e")
	f.claim(10, time.Minute)
	if got := must[attempt.Lease](t)(repo.Claim(t.Context(), "another list", 1, time.Minute)); got.Claim != "" {
		t.Errorf("claimed %+v of a list that is not there", got)
	}
}

const never attempt.Claim = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"

// A change that names a claim touches what that one holds, one that names none everything.
func claimsFence(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	f.many(attempt.Add, "", 6, "a", "b", "c", "d", "e", "f")
	one := f.claim(2, time.Minute, "a", "b")
	two := f.claim(2, time.Minute, "c", "d")
	f.many(attempt.Increment, one, 2, "a", "b", "c", "e", "nothing")
	f.one(attempt.Increment, "c", two, 1)
	f.one(attempt.Increment, "a", two, 0)
	f.one(attempt.Delete, "c", one, 0)
	f.one(attempt.Delete, "a", never, 0)
	f.one(attempt.Delete, "e", never, 0) // free items are nobody's
	f.many(attempt.Delete, two, 1, "a", "d")
	if got := must[int64](t)(repo.Stage(t.Context(), attempt.Increment, list, whole("f", "c", "b", "a"), one)); got != 2 {
		t.Errorf("staged: %d incremented, want 2", got)
	}
	if got := must[int64](t)(repo.Stage(t.Context(), attempt.Delete, list, whole("f", "c", "b", "a"), two)); got != 1 {
		t.Errorf("staged: %d deleted, want 1", got)
	}
	f.many(attempt.Increment, "", 4, "a", "b", "e", "f")
	f.entries(attempt.Entry{Item: "a", Attempts: 3}, attempt.Entry{Item: "b", Attempts: 3},
		attempt.Entry{Item: "e", Attempts: 1}, attempt.Entry{Item: "f", Attempts: 1})
	f.one(attempt.Delete, "a", "", 1)
}

// A claim whose lease is over holds nothing, even while nobody else has come.
func claimsRunOut(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	f.many(attempt.Add, "", 3, "a", "b", "c")
	old := f.claim(2, 30*time.Millisecond, "a", "b")
	f.one(attempt.Increment, "a", "", 1) // leaves the lease as it is
	waitUntil(t, func() bool { return must[attempt.Progress](t)(repo.Progress(t.Context(), list)).Claimed == 0 })
	f.many(attempt.Increment, old, 0, "a", "b")
	f.many(attempt.Delete, old, 0, "a", "b")
	f.one(attempt.Delete, "a", old, 0)
	for _, late := range []func(context.Context, attempt.List, attempt.Claim) (int64, error){
		repo.Release,
		func(ctx context.Context, l attempt.List, c attempt.Claim) (int64, error) {
			return repo.Extend(ctx, l, c, time.Minute)
		},
	} {
		if n := must[int64](t)(late(t.Context(), list, old)); n != 0 {
			t.Errorf("a claim that is over holds %d items", n)
		}
	}
	next := f.claim(9, time.Minute, "a", "b", "c")
	f.many(attempt.Delete, old, 0, "a", "b")
	f.many(attempt.Delete, next, 2, "a", "b")
}

func extendAndRelease(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	f.many(attempt.Add, "", 4, "a", "b", "c", "d")
	one := f.claim(2, time.Minute, "a", "b")
	two := f.claim(2, time.Minute, "c", "d")
	f.one(attempt.Delete, "b", "", 1)
	if n := must[int64](t)(repo.Extend(t.Context(), list, one, 30*time.Millisecond)); n != 1 {
		t.Errorf("extended %d, want 1", n)
	}
	waitUntil(t, func() bool { return must[attempt.Progress](t)(repo.Progress(t.Context(), list)).Claimed == 2 })
	for _, l := range []attempt.List{list, "another list"} {
		want := map[attempt.List]int64{list: 2}[l]
		if n := must[int64](t)(repo.Release(t.Context(), l, two)); n != want {
			t.Errorf("released %d of %q, want %d", n, l, want)
		}
	}
	f.many(attempt.Delete, two, 0, "c", "d")
	f.claim(9, time.Minute, "a", "c", "d")
}

func abandon(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	f.many(attempt.Add, "", 4, "a", "b", "c", "d")
	for range 5 {
		f.many(attempt.Increment, "", 2, "b", "c")
	}
	f.many(attempt.Increment, "", 1, "d")
	held := f.claim(2, time.Minute, "a", "b")
	if n := must[int64](t)(repo.Abandon(t.Context(), list, 6, "")); n != 0 {
		t.Errorf("abandoned %d, want 0", n)
	}
	if n := must[int64](t)(repo.Abandon(t.Context(), list, 5, held)); n != 1 {
		t.Errorf("abandoned %d of the claim, want 1", n)
	}
	if n := must[int64](t)(repo.Abandon(t.Context(), list, 5, "")); n != 1 {
		t.Errorf("abandoned %d, want 1", n)
	}
	f.entries(attempt.Entry{Item: "a"}, attempt.Entry{Item: "d", Attempts: 1})
}

func staged(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	ctx := t.Context()
	items := []attempt.Item{"d", "a", "b", "a", "c", "b", "e"}
	for _, step := range []struct {
		change attempt.Change
		want   int64
	}{{attempt.Add, 5}, {attempt.Add, 0}, {attempt.Increment, 5}, {attempt.Increment, 5}} {
		if n := must[int64](t)(repo.Stage(ctx, step.change, list, whole(items...), "")); n != step.want {
			t.Errorf("%v: %d, want %d", step.change, n, step.want)
		}
	}
	f.one(attempt.Delete, "c", "", 1)
	if n := must[int64](t)(repo.Stage(ctx, attempt.Delete, list, whole("e", "c", "d", "nothing", "e"), "")); n != 2 {
		t.Errorf("deleted %d, want 2", n)
	}
	f.entries(attempt.Entry{Item: "a", Attempts: 2}, attempt.Entry{Item: "b", Attempts: 2})
	if n := must[int64](t)(repo.Stage(ctx, attempt.Add, list, whole(), "")); n != 0 {
		t.Errorf("nothing added %d", n)
	}
}

var errBroken = errors.New("the upload broke off")

// An upload that breaks off leaves nothing behind, and the repository goes on.
func stagedBroken(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	f.many(attempt.Add, "", 2, "a", "b")
	for _, change := range []attempt.Change{attempt.Add, attempt.Increment, attempt.Delete} {
		_, err := repo.Stage(t.Context(), change, list, parts([]attempt.Item{"a", "b", "c", "d", "e"}, 2, errBroken), "")
		wantErr(t, err, errBroken)
	}
	f.entries(attempt.Entry{Item: "a"}, attempt.Entry{Item: "b"})
	if n := must[int64](t)(repo.Stage(t.Context(), attempt.Add, list, parts([]attempt.Item{"c", "d", "e"}, 2, io.EOF), "")); n != 3 {
		t.Errorf("afterwards %d were added, want 3", n)
	}
}

// endedContext: a caller that has gone must not change anything.
func endedContext(t *testing.T, repo attempt.Repository) {
	f := fixture{t, repo}
	f.many(attempt.Add, "", 1, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, one := repo.One(ctx, attempt.Increment, list, "a", "")
	_, many := repo.Many(ctx, attempt.Increment, list, attempt.ItemsOf("a"), "")
	_, stage := repo.Stage(ctx, attempt.Increment, list, whole("a"), "")
	_, claim := repo.Claim(ctx, list, 1, time.Minute)
	_, abandon := repo.Abandon(ctx, list, 1, "")
	for name, err := range map[string]error{"one": one, "many": many, "stage": stage, "claim": claim, "abandon": abandon} {
		if err == nil {
			t.Errorf("%s succeeded with an ended context", name)
		}
	}
	f.entries(attempt.Entry{Item: "a"})
	f.claim(1, time.Minute, "a")
}

// waitUntil polls a condition for ten seconds at most.
func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within ten seconds")
		}
	}
}
