package attempttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

func oneItem(f fixture) {
	_, err := f.repo.Get(f.Context(), list, "a")
	f.wantErr(err, attempt.ErrNotFound)
	f.one(attempt.Increment, "a", "", 0)
	f.one(attempt.Delete, "a", "", 0)
	f.one(attempt.Add, "a", "", 1)
	f.one(attempt.Increment, "a", "", 1)
	f.one(attempt.Add, "a", "", 0) // attempts stay
	f.attempts(list, "a", 1)

	_, err = f.repo.Get(f.Context(), "another list", "a")
	f.wantErr(err, attempt.ErrNotFound)
	for l, want := range map[attempt.List]bool{list: true, "another list": false} {
		if got := must(f.repo.Exists(f.Context(), l))(f.T); got != want {
			f.Errorf("%q exists: %t", l, got)
		}
	}

	f.one(attempt.Delete, "a", "", 1)
	f.entries()
}

func batches(f fixture) {
	f.many(attempt.Add, "", 3, "c", "a", "b", "a", "c")
	f.many(attempt.Add, "", 1, "b", "d")
	f.many(attempt.Increment, "", 2, "d", "b", "nothing", "b")
	f.entries(attempt.Entry{Item: "a"}, attempt.Entry{Item: "b", Attempts: 1},
		attempt.Entry{Item: "c"}, attempt.Entry{Item: "d", Attempts: 1})
	f.many(attempt.Delete, "", 2, "d", "nothing", "a", "a")
	f.entries(attempt.Entry{Item: "b", Attempts: 1}, attempt.Entry{Item: "c"})
	n, err := f.repo.ApplyBatch(f.Context(), attempt.Delete, "another list", attempt.ItemsOf("b"), "")
	f.want("delete from a list that does not exist", n, err, 0)
}

// newAndOld: after batches of only new items, a batch may contain items that are already in the list.
func newAndOld(f fixture) {
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
		f.many(attempt.Add, "", c.want, c.items...)
		f.many(attempt.Increment, "", 1, c.items[0])
	}

	if n, attempts := sum(f.all()); n != len(all) || attempts != 8 {
		f.Errorf("%d items with %d attempts, want %d with 8", n, attempts, len(all))
	}
}

// hostile returns items that must be stored byte by byte and stay different.
func hostile() []attempt.Item {
	return []attempt.Item{
		" ", " a", "%", "'; DROP TABLE iidy.lists; --", "$1", "..", "A", "NULL", `\`, `\N`, `\.`, "_", "a", "a ", "a b 7",
		"a\tb", "a+b", "a/b", "{a,b}", `{"a"}`, "e\u0301", "é", "\u202eabc", "\ufeffa", "🦀",
		attempt.Item(strings.Repeat("x", attempt.MaxBytes-len(list))),
	}
}

func hostileItems(f fixture) {
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
		f.attempts(list, item, 2)
	}
	f.claim(attempt.MaxPage, time.Minute, itemsOf(want)...)
	f.staged(attempt.Delete, "", int64(len(items)), items...)
}

func pages(f fixture) {
	items := []attempt.Item{"B", "a", "b", "c", "é", "🦀"}
	f.many(attempt.Add, "", int64(len(items)), items...)

	var got []attempt.Item
	for after := ""; ; {
		entries := f.page(after, 2)
		if len(entries) == 0 {
			break
		}
		got = append(got, itemsOf(entries)...)
		after = string(entries[len(entries)-1].Item)
	}
	if !slices.Equal(got, items) {
		f.Errorf("paged %q, want %q", got, items)
	}

	for after, want := range map[string]attempt.Item{"0": "B", "a0": "b", "bb": "c"} { // positions between two items
		if e := f.page(after, 1); len(e) != 1 || e[0].Item != want {
			f.Errorf("after %q comes %v, want %q", after, e, want)
		}
	}
}

func counts(f fixture) {
	if got := must(f.repo.Count(f.Context(), list))(f.T); got != (attempt.Counts{}) {
		f.Errorf("an empty list: %+v", got)
	}
	items := []attempt.Item{"a", "b", "c", "d", "e", "f", "g", "h"}
	f.many(attempt.Add, "", 8, items...)
	for i := range 7 {
		f.many(attempt.Increment, "", int64(len(items[i+1:])), items[i+1:]...)
	}
	f.claim(3, time.Minute, "a", "b", "c")
	want := attempt.Counts{Items: 8, Claimed: 3, Attempts: attempt.Buckets{1, 1, 1, 1, 1, 3}}
	if got := must(f.repo.Count(f.Context(), list))(f.T); got != want {
		f.Errorf("%+v, want %+v", got, want)
	}
}

func claims(f fixture) {
	f.claim(5, time.Minute) // the list is empty
	f.many(attempt.Add, "", 5, "e", "d", "c", "b", "a")
	f.one(attempt.Increment, "b", "", 1)

	before := time.Now()
	l := must(f.repo.Claim(f.Context(), list, 2, time.Minute))(f.T)
	if want := []attempt.Entry{{Item: "a"}, {Item: "b", Attempts: 1}}; !slices.Equal(listed(l.Entries), want) {
		f.Errorf("claimed %q, want %v", l.Entries.Lines(), want)
	}
	if _, err := attempt.ParseClaim(string(l.Claim)); err != nil {
		f.Error(err)
	}

	earliest, latest := before.Add(50*time.Second), time.Now().Add(70*time.Second)
	if l.Until.Before(earliest) || l.Until.After(latest) || l.Until.Location() != time.UTC {
		f.Errorf("a lease of a minute from %s ends at %s", before, l.Until)
	}

	f.claim(2, time.Minute, "c", "d")
	f.one(attempt.Add, "aa", "", 1)
	f.claim(10, time.Minute, "aa", "e")
	f.claim(10, time.Minute)
	if got := must(f.repo.Claim(f.Context(), "another list", 1, time.Minute))(f.T); got.Claim != "" {
		f.Errorf("claimed %+v of a list that does not exist", got)
	}
}

const unknown attempt.Claim = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"

// claimsFence: a change with a claim affects only the items that it holds, a change without one all items.
func claimsFence(f fixture) {
	f.many(attempt.Add, "", 6, "a", "b", "c", "d", "e", "f")
	one := f.claim(2, time.Minute, "a", "b")
	two := f.claim(2, time.Minute, "c", "d")

	f.many(attempt.Increment, one, 2, "a", "b", "c", "e", "nothing")
	f.one(attempt.Increment, "c", two, 1)
	f.one(attempt.Increment, "a", two, 0)
	f.one(attempt.Delete, "c", one, 0)
	f.one(attempt.Delete, "a", unknown, 0)
	f.one(attempt.Delete, "e", unknown, 0) // no claim holds a free item
	f.many(attempt.Delete, two, 1, "a", "d")
	f.staged(attempt.Increment, one, 2, "f", "c", "b", "a")
	f.staged(attempt.Delete, two, 1, "f", "c", "b", "a")

	f.many(attempt.Increment, "", 4, "a", "b", "e", "f")
	f.entries(attempt.Entry{Item: "a", Attempts: 3}, attempt.Entry{Item: "b", Attempts: 3},
		attempt.Entry{Item: "e", Attempts: 1}, attempt.Entry{Item: "f", Attempts: 1})
	f.one(attempt.Delete, "a", "", 1)
}

// waitClaimed waits until that many items are claimed.
func (f fixture) waitClaimed(want int64) {
	waittest.Eventually(f, "leases have ended", func() bool {
		return must(f.repo.Count(f.Context(), list))(f.T).Claimed == want
	})
}

// claimsEnd: a claim whose lease has ended holds nothing, even while the items are free.
func claimsEnd(f fixture) {
	f.many(attempt.Add, "", 3, "a", "b", "c")
	old := f.claim(2, 30*time.Millisecond, "a", "b")
	f.one(attempt.Increment, "a", "", 1) // leaves the lease as it is

	f.waitClaimed(0)
	f.many(attempt.Increment, old, 0, "a", "b")
	f.many(attempt.Delete, old, 0, "a", "b")
	f.one(attempt.Delete, "a", old, 0)
	n, err := f.repo.Release(f.Context(), list, old)
	f.want("release", n, err, 0)
	n, err = f.repo.Extend(f.Context(), list, old, time.Minute)
	f.want("extend", n, err, 0)

	next := f.claim(9, time.Minute, "a", "b", "c")
	f.many(attempt.Delete, old, 0, "a", "b")
	f.many(attempt.Delete, next, 2, "a", "b")
}

func extendAndRelease(f fixture) {
	f.many(attempt.Add, "", 4, "a", "b", "c", "d")
	one := f.claim(2, time.Minute, "a", "b")
	two := f.claim(2, time.Minute, "c", "d")
	f.one(attempt.Delete, "b", "", 1)

	n, err := f.repo.Extend(f.Context(), list, one, 30*time.Millisecond)
	f.want("extend", n, err, 1)
	f.waitClaimed(2)

	for _, l := range []attempt.List{list, "another list"} {
		n, err := f.repo.Release(f.Context(), l, two)
		f.want("release of "+string(l), n, err, map[attempt.List]int64{list: 2}[l])
	}
	f.many(attempt.Delete, two, 0, "c", "d")
	f.claim(9, time.Minute, "a", "c", "d")
}

func abandon(f fixture) {
	f.many(attempt.Add, "", 4, "a", "b", "c", "d")
	for range 5 {
		f.many(attempt.Increment, "", 2, "b", "c")
	}
	f.many(attempt.Increment, "", 1, "d")

	held := f.claim(2, time.Minute, "a", "b")
	for _, c := range []struct {
		attempts int64
		claim    attempt.Claim
		want     int64
	}{{6, "", 0}, {5, held, 1}, {5, "", 1}} {
		n, err := f.repo.Abandon(f.Context(), list, c.attempts, c.claim)
		f.want("abandon", n, err, c.want)
	}
	f.entries(attempt.Entry{Item: "a"}, attempt.Entry{Item: "d", Attempts: 1})
}

func staged(f fixture) {
	items := []attempt.Item{"d", "a", "b", "a", "c", "b", "e"}
	f.staged(attempt.Add, "", 5, items...)
	f.staged(attempt.Add, "", 0, items...)
	f.staged(attempt.Increment, "", 5, items...)
	f.staged(attempt.Increment, "", 5, items...)
	f.one(attempt.Delete, "c", "", 1)
	f.staged(attempt.Delete, "", 2, "e", "c", "d", "nothing", "e")
	f.entries(attempt.Entry{Item: "a", Attempts: 2}, attempt.Entry{Item: "b", Attempts: 2})
	f.staged(attempt.Add, "", 0)
}

// stagedBroken: an upload that fails changes nothing, and the repository still works.
func stagedBroken(f fixture) {
	f.many(attempt.Add, "", 2, "a", "b")
	errBroken := errors.New("the upload broke off")
	for _, change := range attempt.Changes() {
		next := parts([]attempt.Item{"a", "b", "c", "d", "e"}, 2, errBroken)
		_, err := f.repo.ApplyStaged(f.Context(), change, list, next, "")
		f.wantErr(err, errBroken)
	}
	f.entries(attempt.Entry{Item: "a"}, attempt.Entry{Item: "b"})
	f.staged(attempt.Add, "", 3, "c", "d", "e")
}

// endedContext: a call whose context has ended changes nothing.
func endedContext(f fixture) {
	f.many(attempt.Add, "", 1, "a")
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	_, one := f.repo.Apply(ctx, attempt.Increment, list, "a", "")
	_, many := f.repo.ApplyBatch(ctx, attempt.Increment, list, attempt.ItemsOf("a"), "")
	_, stage := f.repo.ApplyStaged(ctx, attempt.Increment, list, parts([]attempt.Item{"a"}, 1, nil), "")
	_, claim := f.repo.Claim(ctx, list, 1, time.Minute)
	_, abandon := f.repo.Abandon(ctx, list, 1, "")
	for name, err := range map[string]error{
		"one": one, "many": many, "stage": stage, "claim": claim, "abandon": abandon,
	} {
		if err == nil {
			f.Errorf("%s succeeded with an ended context", name)
		}
	}
	f.entries(attempt.Entry{Item: "a"})
	f.claim(1, time.Minute, "a")
}
