package postgres_test

import (
	"fmt"
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

// A page is found by its key, however far into the list it is, and a batch looks
// its items up one by one, whether or not the table was analyzed.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := apptest.Open(t, dbtest.Postgres(t, postgres.Migrations()))
	execute(t, db, `ALTER TABLE iidy.lists SET (autovacuum_enabled = off)`)
	seed(t, db, 60_000)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			execute(t, db, `VACUUM ANALYZE iidy.lists`)
		}
		for name, got := range map[string]string{
			"page":  plan(t, db, postgres.PageSQL, "l", "0018000", 1000),
			"held":  plan(t, db, postgres.HeldManySQL+`SELECT item FROM held`, "l", items(9000, 1000), ""),
			"claim": plan(t, db, postgres.ClaimSQL, "l", "", 100, int64(1), int64(1)),
		} {
			if strings.Contains(got, "Seq Scan on lists") || strings.Contains(got, "Hash Join") ||
				!strings.Contains(got, "lists_pkey") {
				t.Errorf("%s, analyzed %t:\n%s", name, analyzed, got)
			}
		}
		page := plan(t, db, postgres.PageSQL, "l", "0018000", 1000)
		claim := plan(t, db, postgres.ClaimSQL, "l", "", 100, int64(1), int64(1))
		claim, _, _ = strings.Cut(claim, "CTE lease") // what it scans, before what it updates
		for _, got := range []string{page, claim} {
			if strings.Contains(got, "Sort") || strings.Contains(got, "Bitmap") {
				t.Errorf("analyzed %t: what is read is sorted first:\n%s", analyzed, got)
			}
		}
		if !strings.Contains(page, `item > '0018000'`) || strings.Contains(page, "Rows Removed") || strings.Contains(page, "OFFSET") {
			t.Errorf("a page reads more than itself:\n%s", page)
		}
	}
	extend := plan(t, db, postgres.ExtendSQL, "l", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", int64(1))
	if !strings.Contains(extend, "lists_claim") {
		t.Errorf("extend does not look the claim up:\n%s", extend)
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
	seed(t, db, items)
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
