package postgres_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// plan explains a statement as it runs.
func plan(t *testing.T, db *sqlx.DB, statement string, args ...any) string {
	t.Helper()
	conn, err := db.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var lines []string
	if err := conn.SelectContext(t.Context(), &lines, `EXPLAIN (ANALYZE, TIMING off) `+statement, args...); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// wasted matches what is read in vain.
var wasted = regexp.MustCompile(`Seq Scan on lists|(Hash|Merge) Join|Rows Removed by (Join )?Filter: \d{4,}`)

// A page is found by its key, however far into the list it is, and a batch looks its
// items up one by one: whether the table was never analyzed, was just now, or was
// before the list was made.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := apptest.Open(t, dbtest.Postgres(t, postgres.Migrations()))
	execute(t, db, `ALTER TABLE iidy.lists SET (autovacuum_enabled = off)`)
	const claim = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
	look := func(when, list string) {
		t.Helper()
		page := plan(t, db, postgres.PageSQL, list, "0018000", 1000)
		taken := plan(t, db, postgres.ClaimSQL, list, "", 100, int64(time.Hour), int64(1))
		for name, got := range map[string]string{
			"page": page, "claim": taken,
			"increment": plan(t, db, postgres.SentSQL(attempt.Increment), list, items(9000, 900), ""),
			"fenced":    plan(t, db, postgres.SentSQL(attempt.Increment), list, items(9000, 900), claim),
			"extend":    plan(t, db, postgres.ExtendSQL, list, claim, int64(1)),
			"delete":    plan(t, db, postgres.SentSQL(attempt.Delete), list, items(9000, 900), ""),
		} {
			if wasted.MatchString(got) || !strings.Contains(got, "lists_pkey") && !strings.Contains(got, "lists_claim") {
				t.Errorf("%s, %s:\n%s", name, when, got)
			}
		}
		taken, _, _ = strings.Cut(taken, "CTE lease") // what it scans, before what it updates
		for _, got := range []string{page, taken} {
			if strings.Contains(got, "Sort") || strings.Contains(got, "Bitmap") {
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

// unbounded matches a scan of lists that no condition bounds: the line that would follow has one.
var unbounded = regexp.MustCompile(`Seq Scan on lists|Scan using lists_\w+ on lists[^\n]*\n *[^I ]`)

// A kept plan was made when a list was short, perhaps, and serves one of millions: it
// goes by an index all the same.
func TestKeptPlansOfAShortList(t *testing.T) {
	t.Parallel()
	session := url.Values{}
	for name, value := range postgres.Session() {
		session.Set(name, value)
	}
	db := apptest.Open(t, dbtest.Postgres(t, postgres.Migrations())+"&"+session.Encode())
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

// items are so many of a seeded list from one on, a line each.
func items(from, n int) string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("%07d", from+i))
	}
	return strings.Join(lines, "\n")
}

// Where the head of a list is claimed, a replica remembers where its free items
// begin; what becomes free before that place is found all the same, in time.
func TestLongHead(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, other, db := openStore(t, dsn, sqldb.PoolerNone), openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
	const items = 3 * postgres.LongHead
	seed(t, db, string(list), items)
	claim := func(s *postgres.Store, count int, want string) attempt.Claim {
		t.Helper()
		l, err := s.Claim(t.Context(), list, count, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		first := "nothing"
		if len(l.Entries) > 0 {
			first = string(l.Entries[0].Item)
		}
		if first != want {
			t.Errorf("claimed from %s on, want %s", first, want)
		}
		return l.Claim
	}
	first := claim(s, postgres.LongHead, "0000000")
	claim(s, 10, fmt.Sprintf("%07d", postgres.LongHead)) // a short head: everybody looks from the start
	add(t, other, "0000000-new")
	claim(s, 1, "0000000-new")
	claim(s, 10, fmt.Sprintf("%07d", postgres.LongHead+10)) // long by now, and remembered
	add(t, s, "0000001-new")
	claim(s, 1, "0000001-new") // its own adds make a replica forget
	claim(s, 10, fmt.Sprintf("%07d", postgres.LongHead+20))
	if n, err := s.Release(t.Context(), list, first); err != nil || n != postgres.LongHead {
		t.Fatalf("released %d: %v", n, err)
	}
	claim(s, postgres.LongHead, "0000000") // and so do its releases
	claim(s, 10, fmt.Sprintf("%07d", postgres.LongHead+30))
	add(t, other, "0000002-new") // of this one it does not know
	deadline := time.Now().Add(5 * time.Second)
	for found := false; !found; {
		l, err := s.Claim(t.Context(), list, 1, time.Hour)
		if err != nil || l.Claim == "" || time.Now().After(deadline) {
			t.Fatalf("an item that another replica added was not found: %+v %v", l, err)
		}
		found = l.Entries[0].Item == "0000002-new"
		time.Sleep(20 * time.Millisecond)
	}
	claim(s, attempt.MaxPage, oneItem(t, db))
	add(t, other, "0000003-new")
	claim(s, 1, "0000003-new") // nothing is free behind the place: it looks from the start
	claim(s, 1, "nothing")
}

// oneItem is the first free item of the list.
func oneItem(t *testing.T, db *sqlx.DB) string {
	t.Helper()
	return one[string](t, db, `SELECT min(item) FROM iidy.lists WHERE lease_until IS NULL`)
}
