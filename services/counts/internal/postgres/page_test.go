package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// An item id lies between prefix and prefixEnd(prefix) if and only if it begins with the prefix.
func TestPrefixEndBoundsExactlyThePrefix(t *testing.T) {
	t.Parallel()
	edges := rapid.SampledFrom([]rune{
		' ', 'a', 'b', 0x7e, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, utf8.MaxRune - 1, utf8.MaxRune,
	})
	text := rapid.StringOfN(edges, 0, 4, 16)
	rapid.Check(t, func(t *rapid.T) {
		prefix, id := text.Draw(t, "prefix"), text.Draw(t, "id")
		if rapid.Bool().Draw(t, "extended") {
			id = prefix + id
		}
		end := prefixEnd(prefix)
		if !utf8.ValidString(end) {
			t.Fatalf("%q ends at %q, which is not UTF-8", prefix, end)
		}
		if within := prefix <= id && id < end; within != strings.HasPrefix(id, prefix) {
			t.Errorf("%q is between %q and %q: %t", id, prefix, end, within)
		}
	})
}
