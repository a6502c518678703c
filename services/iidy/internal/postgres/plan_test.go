package postgres_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// plan returns EXPLAIN ANALYZE of a statement.
func plan(t *testing.T, db *sqlx.DB, statement string, args ...any) string {
	t.Helper()
	lines := apptest.Plan(t, db, `EXPLAIN (ANALYZE, TIMING off) `+statement, args...)
	return strings.ReplaceAll(lines, ".00 loops=", " loops=") // PostgreSQL 18 counts rows in hundredths
}

// wasted matches the reading of rows in vain.
var wasted = regexp.MustCompile(`Seq Scan on lists|(Hash|Merge) Join|Rows Removed by (Join )?Filter: \d{4,}`)

// A page is found by its key, however far into the list it is, and a batch looks its items up one by one: on a
// table that was never analyzed, on one that was just analyzed, and when the list is newer than the statistics.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := dbtest.Dial(t, database(t))
	execute(t, db, `ALTER TABLE iidy.lists SET (autovacuum_enabled = off)`)
	look := func(when, list string) {
		t.Helper()
		page := plan(t, db, postgres.PageSQL, list, "0018000", 1000, 1<<20)
		taken := plan(t, db, postgres.ClaimSQL(), list, "", 100, int64(time.Hour), int64(1), int64(1<<20))
		for name, got := range map[string]string{
			"page": page, "claim": taken,
			"increment": plan(t, db, postgres.SentSQL(attempt.Increment), list, "", items(9000, 900)),
			"fenced":    plan(t, db, postgres.SentSQL(attempt.Increment), list, string(claim), items(9000, 900)),
			"extend":    plan(t, db, postgres.ExtendSQL(), list, string(claim), int64(1)),
			"delete":    plan(t, db, postgres.SentSQL(attempt.Delete), list, "", items(9000, 900)),
		} {
			if wasted.MatchString(got) || !strings.Contains(got, "lists_pkey") && !strings.Contains(got, "lists_claim") {
				t.Errorf("%s, %s:\n%s", name, when, got)
			}
		}
		_, read, _ := strings.Cut(page, "Limit") // above it PostgreSQL 16 sorts for the aggregate
		_, taken, _ = strings.Cut(taken, "CTE unclaimed")
		unclaimed, taken, _ := strings.Cut(taken, "CTE few")
		_, taken, _ = strings.Cut(taken, "CTE walked")
		walked, _, _ := strings.Cut(taken, "CTE held")
		for _, got := range []string{read, unclaimed, walked} {
			if !strings.Contains(got, "Index") || strings.Contains(got, "Sort") || strings.Contains(got, "Bitmap") {
				t.Errorf("%s, what is read is sorted first:\n%s", when, got)
			}
		}
		if !strings.Contains(page, `item > '0018000'`) {
			t.Errorf("%s, a page does not begin at its place:\n%s", when, page)
		}
	}
	seed(t, db, "a", 60_000)
	look("never analyzed", "a")
	execute(t, db, `VACUUM ANALYZE iidy.lists`)
	look("analyzed", "a")
	seed(t, db, "b", 60_000)
	look("analyzed before", "b")
}

// unbounded matches a scan of lists without a condition, which would follow in the next line.
var unbounded = regexp.MustCompile(`Seq Scan on lists|Scan using lists_\w+ on lists[^\n]*\n *[^I ]`)

// A prepared statement may have been planned while a list was short and serve one of millions: it uses an index in
// any case.
func TestKeptPlansOfAShortList(t *testing.T) {
	t.Parallel()
	session := url.Values{}
	for name, value := range sqldb.PlannedOnce() {
		session.Set(name, value)
	}
	db := dbtest.Dial(t, database(t)+"&"+session.Encode())
	seed(t, db, "a", 2)
	execute(t, db, `VACUUM ANALYZE iidy.lists`)
	conn, err := db.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for statement, params := range postgres.Kept() {
		var lines []string
		nulls := strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ")
		_, err := conn.ExecContext(t.Context(), `PREPARE kept AS `+statement)
		if err == nil {
			err = conn.SelectContext(t.Context(), &lines, `EXPLAIN EXECUTE kept (`+nulls+`)`)
		}
		if err == nil {
			_, err = conn.ExecContext(t.Context(), `DEALLOCATE kept`)
		}
		if got := strings.Join(lines, "\n"); err != nil || unbounded.MatchString(got) {
			t.Errorf("%s\n%v\n%s", statement, err, got)
		}
	}
}

// items returns n items of a seeded list from one on, a line each.
func items(from, n int) string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("%07d", from+i))
	}
	return strings.Join(lines, "\n")
}

// pages matches how many pages a whole plan reads.
var pages = regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?`)

// A claim reads no claimed items, however many: neither when nothing is free, nor when two items are, and five whose
// leases have ended. This holds for a table that was never analyzed, and for statistics older than the list.
func TestClaimsReadNoClaimedItems(t *testing.T) {
	t.Parallel()
	db := dbtest.Dial(t, database(t))
	execute(t, db, `ALTER TABLE iidy.lists SET (autovacuum_enabled = off)`)
	claim := func(when, list string, free int) {
		t.Helper()
		got := apptest.Plan(t, db, `EXPLAIN (ANALYZE, TIMING off, BUFFERS) `+postgres.ClaimSQL(),
			list, "", 1000, int64(time.Hour), int64(postgres.LongHead), int64(1<<20))
		read := 0
		for _, n := range pages.FindStringSubmatch(got)[1:] {
			m, _ := strconv.Atoi(n) // "" where all pages were in memory
			read += m
		}
		if read > 200 {
			t.Errorf("%s, with %d free items, a claim reads %d pages, want 200 at most:\n%s", when, free, read, got)
		}
		const left = `SELECT count(*) FROM iidy.lists WHERE list = $1 AND (lease_until > now()) IS NOT TRUE`
		if n := apptest.One[int](t, db, left, list); n != 0 {
			t.Errorf("%s: %d items are still free", when, n)
		}
	}
	look := func(when, list string) {
		t.Helper()
		claim(when, list, 0)
		execute(t, db, `INSERT INTO iidy.lists (list, item) SELECT $1, unnest($2::text[])`,
			list, pq.Array([]string{"0 " + when, "9 " + when}))
		execute(t, db, `UPDATE iidy.lists SET lease_until = now() WHERE list = $1 AND item LIKE '0__7777'`, list)
		claim(when, list, 7)
	}
	fill := func(list string) {
		t.Helper()
		execute(t, db, `INSERT INTO iidy.lists (list, item, claim, lease_until)
			SELECT $1, lpad(i::text, 7, '0'), gen_random_uuid(), now() + interval '1 day'
			  FROM generate_series(0, 49999) AS i`, list)
	}
	fill("a")
	look("never analyzed", "a")
	execute(t, db, `VACUUM ANALYZE iidy.lists`)
	look("analyzed", "a")
	fill("b")
	look("analyzed before", "b")
}

// When the head of a list is claimed, and leases after it have ended, a replica remembers where its free items begin;
// items that become free before that position are found, at once or after a second.
func TestLongHead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.another()
	seed(t, r.db, string(list), 3*postgres.LongHead)
	claim := func(count int, want string) attempt.Claim {
		t.Helper()
		l, err := r.Claim(t.Context(), list, count, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		first := "nothing"
		for e := range l.Entries.All() {
			first = string(e.Item)
			break
		}
		if first != want {
			t.Errorf("claimed from %s on, want %s", first, want)
		}
		return l.Claim
	}
	first := claim(postgres.LongHead, "0000000")
	execute(t, r.db, `UPDATE iidy.lists SET claim = gen_random_uuid(), lease_until = now() WHERE claim IS NULL`)
	claim(10, fmt.Sprintf("%07d", postgres.LongHead)) // a short head is not remembered
	other.add("0000000-new")
	claim(1, "0000000-new")
	claim(10, fmt.Sprintf("%07d", postgres.LongHead+10)) // long enough, and remembered
	r.add("0000001-new")
	claim(1, "0000001-new") // its own adds make a replica forget the position
	claim(10, fmt.Sprintf("%07d", postgres.LongHead+20))
	if n, err := r.Release(t.Context(), list, first); err != nil || n != postgres.LongHead {
		t.Fatalf("released %d: %v", n, err)
	}
	claim(postgres.LongHead, "0000000") // and so do its releases
	claim(10, fmt.Sprintf("%07d", postgres.LongHead+30))
	other.add("0000002-new") // the first replica does not know of this one
	waittest.Eventually(t, "an item that another replica added is found", func() bool {
		l, err := r.Claim(t.Context(), list, 1, time.Hour)
		if err != nil || l.Claim == "" {
			t.Fatalf("%+v %v", l, err)
		}
		return l.Entries.Last() == "0000002-new"
	})
	const free = `SELECT min(item) FROM iidy.lists WHERE lease_until IS NULL OR lease_until <= now()`
	claim(attempt.MaxPage, apptest.One[string](t, r.db, free))
	other.add("0000003-new")
	claim(1, "0000003-new") // nothing is free behind the position
	claim(1, "nothing")
}
