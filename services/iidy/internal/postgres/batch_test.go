package postgres_test

import (
	"fmt"
	"io"
	"math/rand/v2"
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

// every is a batch of seeded items, each step-th from one on, in no order. With a step of one
// they are read together, with more they are looked up one by one.
func every(from, n, step int) *attempt.Items {
	items := make([]attempt.Item, n)
	for i, at := range rand.Perm(n) {
		items[at] = attempt.Item(fmt.Sprintf("%07d", from+i*step))
	}
	return attempt.ItemsOf(items...)
}

// Neighbours come to their locks in the order of the key, even where the planner looks
// for them in the order of the table.
func TestNeighboursAreLockedInOrder(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	byTheTable(t, dsn)
	db := apptest.Open(t, dsn)
	scatter(t, db, "a", 1000)
	for _, change := range []attempt.Change{attempt.Increment, attempt.Delete} {
		got := plan(t, db, postgres.SentSQL(change), "a", items(0, 100), "")
		_, near, _ := strings.Cut(got, "CTE near")
		_, near, _ = strings.Cut(near, "LockRows")
		near, _, _ = strings.Cut(near, "CTE far")
		if sort, scan := strings.Index(near, "Sort"), strings.Index(near, "Bitmap Heap Scan"); sort < 0 || scan < sort {
			t.Errorf("%s: the rows are not sorted before they are locked:\n%s", change, got)
		}
	}
}

// byTheTable makes the planner find rows in the order of the table, which a list that grew in no order leads it to.
func byTheTable(t *testing.T, dsn string) {
	t.Helper()
	db := apptest.Open(t, dsn)
	execute(t, db, `ALTER DATABASE "`+one[string](t, db, `SELECT current_database()`)+`" SET enable_indexscan = off`)
}

// scatter fills a list with items 0000000 to n-1 in no order.
func scatter(t *testing.T, db *sqlx.DB, list string, n int) {
	t.Helper()
	execute(t, db, `INSERT INTO iidy.lists (list, item) SELECT $1, lpad(i::text, 7, '0') FROM generate_series(0, $2::int - 1) AS i
		ORDER BY md5(i::text)`, list, n)
	execute(t, db, `VACUUM ANALYZE iidy.lists`)
}

// Rows that are changed or deleted while a batch waits for one of them are changed
// once more, or are not there: no count is lost, and none is made twice.
func TestRowsThatMoveWhileTheirBatchWaits(t *testing.T) {
	t.Parallel()
	const n = 200
	const claim, stranger = "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "5b8bd3f2-0c7e-4f0e-a3a7-6e2fb2f0a111"
	for _, change := range []attempt.Change{attempt.Increment, attempt.Delete} {
		for name, step := range map[string]int{"beside each other": 1, "scattered": 3} {
			for _, fence := range []attempt.Claim{"", claim} {
				t.Run(fmt.Sprintf("%s %s %q", change, name, fence), func(t *testing.T) {
					t.Parallel()
					dsn := dbtest.Postgres(t, postgres.Migrations())
					watchDeadlocks(t, dsn)
					s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
					seed(t, db, string(list), n*step)
					execute(t, db, `UPDATE iidy.lists SET claim = $1, lease_until = clock_timestamp() + interval '1 hour'`, claim)
					tx, err := db.BeginTxx(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					// All of these are in the batch: two that move, one that goes, one whose claim is lost.
					moved := []any{fmt.Sprintf("%07d", 30*step), fmt.Sprintf("%07d", 90*step)}
					gone, lost := fmt.Sprintf("%07d", 60*step), fmt.Sprintf("%07d", 120*step)
					for _, c := range []struct {
						statement string
						args      []any
					}{
						{`UPDATE iidy.lists SET attempts = attempts + 1 WHERE item IN ($1, $2)`, moved},
						{`DELETE FROM iidy.lists WHERE item = $1`, []any{gone}},
						{`UPDATE iidy.lists SET claim = $2 WHERE item = $1`, []any{lost, stranger}},
					} {
						if _, err := tx.ExecContext(t.Context(), c.statement, c.args...); err != nil {
							t.Fatal(err)
						}
					}
					type answer struct {
						n   int64
						err error
					}
					answers := make(chan answer, 1)
					go func() {
						n, err := s.Many(t.Context(), change, list, every(0, n, step), fence)
						answers <- answer{n, err}
					}()
					waitForBlocked(t, db, 1)
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
					want := int64(n - 1)
					if fence != "" {
						want--
					}
					if got := <-answers; got.n != want || got.err != nil {
						t.Errorf("changed %d, want %d: %v", got.n, want, got.err)
					}
					total := int64(n*step - 1)
					if change == attempt.Delete {
						if left := one[int64](t, db, `SELECT count(*) FROM iidy.lists`); left != total-want {
							t.Errorf("%d are left, want %d", left, total-want)
						}
						return
					}
					if sum := one[int64](t, db, `SELECT sum(attempts) FROM iidy.lists`); sum != want+2 {
						t.Errorf("%d attempts, want %d", sum, want+2)
					}
					if twice := one[int64](t, db, `SELECT count(*) FROM iidy.lists WHERE attempts = 2`); twice != 2 {
						t.Errorf("%d have been tried twice, want 2", twice)
					}
				})
			}
		}
	}
}

// However the items of batches lie, all lock their rows in one order: those that meet do
// not deadlock, and each counts.
func TestBatchesOfEveryShapeMeet(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, string){"by the key": func(*testing.T, string) {}, "by the table": byTheTable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const workers, rounds, n = 8, 12, 100
			dsn := dbtest.Postgres(t, postgres.Migrations())
			watchDeadlocks(t, dsn)
			prepare(t, dsn)
			replicas := []*postgres.Store{openStore(t, dsn, sqldb.PoolerNone), openStore(t, dsn, sqldb.PoolerNone)}
			db := apptest.Open(t, dsn)
			scatter(t, db, string(list), 4*n)
			apptest.Together(workers, func(worker int) {
				for round := range rounds {
					batch := every(rand.IntN(3*n), n, 1)
					if (worker+round)%2 == 0 {
						batch = every(rand.IntN(4), n, 4)
					}
					if got, err := replicas[worker%2].Many(t.Context(), attempt.Increment, list, batch, ""); got != n || err != nil {
						t.Errorf("worker %d counted %d of %d: %v", worker, got, n, err)
					}
				}
			})
			if sum := one[int](t, db, `SELECT sum(attempts) FROM iidy.lists`); sum != workers*rounds*n {
				t.Errorf("%d attempts, want %d", sum, workers*rounds*n)
			}
		})
	}
}

// Items that lie beside each other are read together, and nothing but them, or a quarter more; the
// others are looked up one by one, after no more than that was read in vain.
func TestOnlyWhatIsBesideIsRead(t *testing.T) {
	t.Parallel()
	db := apptest.Open(t, dbtest.Postgres(t, postgres.Migrations()))
	scatter(t, db, "a", 100_000)
	for _, c := range []struct {
		name     string
		step     int
		together bool
		n        int
	}{{"all", 1, true, 900}, {"every other", 2, false, 900}, {"every hundredth", 100, false, 900}, {"a few", 1, false, 90}} {
		var lines []string
		for i := range c.n {
			lines = append(lines, fmt.Sprintf("%07d", i*c.step))
		}
		for _, change := range []attempt.Change{attempt.Increment, attempt.Delete} {
			got := plan(t, db, "/* beside */ "+postgres.SentSQL(change), "a", strings.Join(lines, "\n"), "3f2504e0-4f89-41d3-9a0c-0305e82c3301")
			_, near, _ := strings.Cut(got, "CTE near")
			near, far, _ := strings.Cut(near, "CTE far")
			far, _, _ = strings.Cut(far, "CTE held")
			if together := strings.Contains(far, "on lists") && !strings.Contains(near, "never executed"); together != c.together {
				t.Errorf("%s %s: together is %t:\n%s", change, c.name, together, got)
			}
			if alone := strings.Contains(far, fmt.Sprintf("loops=%d", c.n)); alone == c.together {
				t.Errorf("%s %s: looked up one by one is %t:\n%s", change, c.name, alone, got)
			}
			if rows := `actual rows=1126 loops=1`; strings.Contains(got, rows) == (c.together || c.n < 100) {
				t.Errorf("%s %s: not %q is read in vain at most:\n%s", change, c.name, rows, got)
			}
		}
	}
}

// What is added while a delete waits is not deleted, and not waited for: only what the
// delete has locked, and what has moved meanwhile, is looked at once more.
func TestDeleteLeavesWhatIsAddedMeanwhile(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
	add(t, s, "b-moves", "c")
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `UPDATE iidy.lists SET attempts = 1 WHERE item = 'b-moves'`); err != nil {
		t.Fatal(err)
	}
	deleted := make(chan string, 1)
	go func() {
		n, err := s.Many(t.Context(), attempt.Delete, list, attempt.ItemsOf("a-late", "b-moves", "c"), "")
		deleted <- fmt.Sprint(n, err)
	}()
	waitForBlocked(t, db, 1)
	add(t, s, "a-late")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := <-deleted; got != "2 <nil>" {
		t.Errorf("deleted %s, want 2 <nil>", got)
	}
	if left := one[string](t, db, `SELECT string_agg(item, ' ') FROM iidy.lists`); left != "a-late" {
		t.Errorf("%q are left, want what was added", left)
	}
}

// A claim whose lease ends while its change waits for a row holds none of the rows any more.
func TestLeaseEndsInTheWait(t *testing.T) {
	t.Parallel()
	const n, claim = 200, attempt.Claim("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
	staged := func(s *postgres.Store, change attempt.Change) (int64, error) {
		parts := []*attempt.Items{every(0, n, 1)}
		return s.Stage(t.Context(), change, list, func() (*attempt.Items, error) {
			if len(parts) == 0 {
				return nil, io.EOF
			}
			defer func() { parts = nil }()
			return parts[0], nil
		}, claim)
	}
	for name, change := range map[string]func(s *postgres.Store) (int64, error){
		"increment": func(s *postgres.Store) (int64, error) {
			return s.Many(t.Context(), attempt.Increment, list, every(0, n, 1), claim)
		},
		"delete": func(s *postgres.Store) (int64, error) {
			return s.Many(t.Context(), attempt.Delete, list, every(0, n, 1), claim)
		},
		"long increment": func(s *postgres.Store) (int64, error) { return staged(s, attempt.Increment) },
		"long delete":    func(s *postgres.Store) (int64, error) { return staged(s, attempt.Delete) },
		"extend":         func(s *postgres.Store) (int64, error) { return s.Extend(t.Context(), list, claim, time.Hour) },
		"release":        func(s *postgres.Store) (int64, error) { return s.Release(t.Context(), list, claim) },
		"abandon":        func(s *postgres.Store) (int64, error) { return s.Abandon(t.Context(), list, 0, claim) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
			seed(t, db, string(list), n)
			execute(t, db, `UPDATE iidy.lists SET claim = $1, lease_until = clock_timestamp() + interval '1 second'`, string(claim))
			release := hold(t, db, `SELECT FROM iidy.lists WHERE item = '0000000' FOR UPDATE`)
			changed := make(chan string, 1)
			go func() {
				n, err := change(s)
				changed <- fmt.Sprint(n, err)
			}()
			waitForBlocked(t, db, 1)
			for one[bool](t, db, `SELECT max(lease_until) > clock_timestamp() FROM iidy.lists`) {
				time.Sleep(10 * time.Millisecond)
			}
			release()
			if got := <-changed; got != "0 <nil>" {
				t.Errorf("changed %s, want 0 <nil>", got)
			}
			if held := one[int](t, db, `SELECT count(*) FROM iidy.lists WHERE lease_until < clock_timestamp() AND attempts = 0`); held != n {
				t.Errorf("%d of %d items are as they were", held, n)
			}
		})
	}
}
