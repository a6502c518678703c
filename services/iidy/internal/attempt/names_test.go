package attempt_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

func TestItemsAreChecked(t *testing.T) {
	t.Parallel()
	s := attempt.NewService(new(recorder), nil)
	for item, want := range map[string]error{
		"a": nil, " ": nil, "a\tb": nil, "\x01": nil, "é": nil, "🦀": nil, "..": nil, "\u2028": nil,
		strings.Repeat("x", 1996): nil,
		strings.Repeat("x", 1997): attempt.ErrTooLong, strings.Repeat("é", 999): attempt.ErrTooLong,
		"": attempt.ErrInvalidItem, "a\x00": attempt.ErrInvalidItem, "a\nb": attempt.ErrInvalidItem,
		"a\rb": attempt.ErrInvalidItem, "\xff": attempt.ErrInvalidItem, "\xed\xa0\x80": attempt.ErrInvalidItem,
	} {
		_, err := s.Get(t.Context(), "list", attempt.Item(item))
		if !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", item, err, want)
		}
		if err != nil && len(item) > 3 && strings.Contains(err.Error(), item) {
			t.Errorf("the error repeats the item: %v", err)
		}
	}
}

func TestListsAreChecked(t *testing.T) {
	t.Parallel()
	s := attempt.NewService(new(recorder), nil)
	for list, want := range map[string]error{
		"a": nil, "a/b c": nil, strings.Repeat("x", 1999): nil, strings.Repeat("x", 2000): attempt.ErrTooLong,
		"": attempt.ErrInvalidList, "\x00": attempt.ErrInvalidList, "a\nb": attempt.ErrInvalidList,
		"\r": attempt.ErrInvalidList, "\xff": attempt.ErrInvalidList,
	} {
		if _, err := s.Exists(t.Context(), attempt.List(list)); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", list, err, want)
		}
	}
}

func TestParseClaim(t *testing.T) {
	t.Parallel()
	const upper, lower = "3F2504E0-4F89-41D3-9A0C-0305E82C3301", "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
	if c, err := attempt.ParseClaim(upper); err != nil || string(c) != lower {
		t.Errorf("%q %v", c, err)
	}
	for _, s := range []string{
		"", "x", upper[:35], upper + "0", "{" + upper[1:], strings.ReplaceAll(upper, "-", "0"), upper[:35] + "g",
		upper[:8] + "0" + upper[9:],
	} {
		if c, err := attempt.ParseClaim(s); !errors.Is(err, attempt.ErrInvalidClaim) {
			t.Errorf("%q became %q", s, c)
		}
	}
}
