package postgres

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
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

// A page reads no more rows than it may have, however many the prefix has and whatever the planner takes their number
// for.
func TestPageReadsNoMoreThanItsRows(t *testing.T) {
	t.Parallel()
	db := dbtest.Dial(t, dbtest.Postgres(t, Migrations()))
	apptest.Execute(t, db, `INSERT INTO counts.count_values (item_id)
		SELECT 'site-' || (n % 100) || '/page-' || n FROM generate_series(1, 20000) AS n`)
	apptest.Execute(t, db, `ANALYZE counts.count_values`)
	const limit = 11
	rows := regexp.MustCompile(`rows=(\d+)`)
	for _, asked := range [][2]string{
		{"", ""},
		{"site-42/", ""},
		{"site-42/", "site-42/page-4"},
		{"site-99/", ""},
		{"site-4", "site-42/"},
		{"t", ""},
		{"absent", ""},
		{"", "site-98/"},
		{"site-0/", "site-99/"},
	} {
		plan := apptest.Plan(t, db, `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) `+pageSQL,
			asked[0], asked[1], limit, prefixEnd(asked[0]))
		found := rows.FindAllStringSubmatch(plan, -1)
		if len(found) == 0 {
			t.Fatalf("%q:\n%s", asked, plan)
		}
		for _, step := range found {
			if n, err := strconv.Atoi(step[1]); err != nil || n > limit {
				t.Errorf("%q: a step has %s rows\n%s", asked, step[1], plan)
			}
		}
	}
}
