package counting_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	open := func(*testing.T) counting.CountValueRepository { return countingtest.NewMemory() }
	countingtest.Exercise(t, open)
}

func TestItemIDRules(t *testing.T) {
	t.Parallel()
	for s, ok := range map[string]bool{
		"": false, "a": true, " ": true, "a/b": true, "🦀": true, "e\u0301": true, "\u202e": true,
		strings.Repeat("x", 255): true, strings.Repeat("x", 256): false, strings.Repeat("é", 128): false,
		"\x00": false, "a\x00b": false, "\n": false, "\t": false, "\x7f": false, "\u0085": false, "\xff": false,
	} {
		id, err := counting.NewItemID(s)
		switch {
		case ok && (err != nil || string(id) != s):
			t.Errorf("%q: got %q, %v", s, id, err)
		case !ok && !errors.Is(err, counting.ErrInvalidItemID):
			t.Errorf("%q: got %v, want ErrInvalidItemID", s, err)
		case !ok && s != "" && len(s) > 3 && strings.Contains(err.Error(), s):
			t.Errorf("%q is repeated in its error", s)
		}
	}
}
