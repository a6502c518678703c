package countingtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// pages: the pages of a prefix hold its counts in byte order, each once, whatever the size of the pages.
func pages(t *testing.T, repo Repo) {
	ctx := t.Context()
	ids := []string{
		" ", "%", "A", `\`, "_", "a", "a%", "a/b", "a/b/c", "a_", "aa", "ab", "abc", "b", "z", "~", "~~", "a~", "a~b",
		"aé", "ae\u0301", "é", "éa", "\ud7ff", "\ud7ffx", "\ue000", "\uffff", "🦀", "🦀a", "\U0010ffff", "\U0010ffffa",
		"\U0010ffff\U0010ffff", "a\U0010ffff", "a\U0010ffffb", "a\U0010ffff\U0010ffff", "a\ud7ff", "b\U00010000",
		strings.Repeat("\U0010ffff", 63) + "xyz", strings.Repeat("x", counting.MaxItemIDBytes),
	}

	for i, id := range ids {
		must[counting.CountValue](t)(repo.Create(ctx, counting.ItemID(id), int64(i)))
	}
	values := make(map[string]int64, len(ids))
	for i, id := range ids {
		values[id] = int64(i)
	}

	slices.Sort(ids)
	for _, prefix := range append([]string{
		"", "absent", "x", "A", "AA", "a\U0010ffff\U0010ffff\U0010ffff", "\ud7ffx", "\u007e", "b\uffff",
	}, ids...) {
		want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, prefix) })
		for _, limit := range []int{1, 3, 1000} {
			if got := readPages(t, repo, prefix, limit, values); !slices.Equal(got, want) {
				t.Errorf("prefix %q by %d: got %q, want %q", prefix, limit, got, want)
			}
		}
	}

	// A page may begin after an id that does not exist or lacks the prefix.
	for after, want := range map[string]string{"": "a", "Z": "a", "a%%": "a/b", "a": "a%", "ax": "a~"} {
		page := must[[]counting.CountValue](t)(repo.Page(ctx, "a", after, 1))
		if len(page) != 1 || string(page[0].ItemID) != want {
			t.Errorf("after %q: got %+v, want %q", after, page, want)
		}
	}
	if page := must[[]counting.CountValue](t)(repo.Page(ctx, "a", "b", 10)); len(page) != 0 {
		t.Errorf("after the end: got %+v", page)
	}
}

// readPages reads all pages of a prefix, checks their values, and returns the ids.
func readPages(t *testing.T, repo Repo, prefix string, limit int, values map[string]int64) (ids []string) {
	t.Helper()
	after := ""
	for len(ids) <= len(values) {
		page := must[[]counting.CountValue](t)(repo.Page(t.Context(), prefix, after, limit))
		for _, v := range page {
			ids = append(ids, string(v.ItemID))
			if v.Current != values[string(v.ItemID)] || v.UpdatedAt.IsZero() {
				t.Errorf("a page has %+v", v)
			}
		}
		if len(page) < limit {
			return ids
		}
		after = ids[len(ids)-1]
	}
	t.Fatalf("prefix %q by %d: the pages do not end: %q", prefix, limit, ids)
	return nil
}
