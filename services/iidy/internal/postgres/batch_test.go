package postgres_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// every returns n seeded items, each step-th from one on, in random order. With a step of one they are read together,
// with a larger one they are looked up one by one.
func every(from, n, step int) *attempt.Items {
	items := make([]attempt.Item, n)
	for i, at := range rand.Perm(n) {
		items[at] = attempt.Item(fmt.Sprintf("%07d", from+i*step))
	}
	return attempt.ItemsOf(items...)
}

// readByTable makes the planner read rows in the order of the table, as a list that grew in random order makes it do.
func readByTable(t *testing.T, dsn string) {
	t.Helper()
	db := dbtest.Dial(t, dsn)
	name := apptest.One[string](t, db, `SELECT current_database()`)
	execute(t, db, `ALTER DATABASE "`+name+`" SET enable_indexscan = off`)
}

// scatter inserts items 0000000 to n-1 in random order.
func scatter(t *testing.T, db *sqlx.DB, list string, n int) {
	t.Helper()
	execute(t, db, `INSERT INTO iidy.lists (list, item) SELECT $1, lpad(i::text, 7, '0')
		FROM generate_series(0, $2::int - 1) AS i ORDER BY md5(i::text)`, list, n)
	execute(t, db, `VACUUM ANALYZE iidy.lists`)
}

// Rows that another transaction changes or deletes while a batch waits for one of them are changed afterwards, or
// are not there: no count is lost, and none is made twice.
func TestRowsThatMoveWhileTheirBatchWaits(t *testing.T) {
	t.Parallel()
	for _, change := range []attempt.Change{attempt.Increment, attempt.Delete} {
		for name, step := range map[string]int{"neighbours": 1, "scattered": 3} {
			for _, fence := range []attempt.Claim{"", claim} {
				t.Run(fmt.Sprintf("%s %s %q", change, name, fence), func(t *testing.T) {
					t.Parallel()
					rowsThatMove(t, change, step, fence)
				})
			}
		}
	}
}

func rowsThatMove(t *testing.T, change attempt.Change, step int, fence attempt.Claim) {
	t.Helper()
	const n, otherClaim = 200, "5b8bd3f2-0c7e-4f0e-a3a7-6e2fb2f0a111"
	dsn := database(t)
	apptest.WatchDeadlocks(t, dsn)
	r := rigOn(t, dsn, sqldb.PoolerNone, 2*time.Second)
	seed(t, r.db, string(list), n*step)
	execute(t, r.db, `UPDATE iidy.lists SET claim = $1, lease_until = clock_timestamp() + '1 hour'`, string(claim))
	item := func(i int) string { return fmt.Sprintf("%07d", i*step) }
	// Of the batch's items two move, one is deleted, and one gets another claim.
	other := apptest.Hold(t, r.db, `UPDATE iidy.lists SET attempts = attempts + 1 WHERE item IN ($1, $2)`,
		item(30), item(90))
	other.Execute(`DELETE FROM iidy.lists WHERE item = $1`, item(60))
	other.Execute(`UPDATE iidy.lists SET claim = $2 WHERE item = $1`, item(120), otherClaim)
	changed := async(func() (int64, error) { return r.ApplyBatch(t.Context(), change, list, every(0, n, step), fence) })
	r.waitForBlocked(1)
	other.Commit()
	count := n - 1
	if fence != "" {
		count--
	}
	want(t, "change", changed, fmt.Sprint(count, " <nil>"))
	if change == attempt.Delete {
		if left := apptest.One[int](t, r.db, `SELECT count(*) FROM iidy.lists`); left != n*step-1-count {
			t.Errorf("%d are left, want %d", left, n*step-1-count)
		}
		return
	}

	sums := apptest.One[string](t, r.db,
		`SELECT sum(attempts) || ' ' || count(*) FILTER (WHERE attempts = 2) FROM iidy.lists`)
	if sums != fmt.Sprint(count+2, " 2") {
		t.Errorf("attempts and items with two of them: %s, want %d and 2", sums, count+2)
	}
}

// A row that moves while a long delete, or one by attempts, waits for it is deleted by the next pass.
func TestMovedRowsAreDeleted(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*rig) (int64, error){
		"long delete": func(r *rig) (int64, error) {
			return r.ApplyStaged(r.Context(), attempt.Delete, list, parts(attempt.ItemsOf("a", "b")), "")
		},
		"abandon": func(r *rig) (int64, error) { return r.Abandon(r.Context(), list, 0, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.add("a", "b")
			other := apptest.Hold(t, r.db, `UPDATE iidy.lists SET attempts = 1 WHERE item = 'a'`)
			removed := async(func() (int64, error) { return remove(r) })
			r.waitForBlocked(1)
			other.Commit()
			want(t, name, removed, "2 <nil>")
		})
	}
}

// Concurrent batches of neighbours and of scattered items lock their rows in one order: none deadlocks, and each
// counts.
func TestBatchesOfEveryShapeMeet(t *testing.T) {
	t.Parallel()
	const workers, rounds, n = 8, 12, 100
	dsn := database(t)
	apptest.WatchDeadlocks(t, dsn)
	readByTable(t, dsn)
	r := rigOn(t, dsn, sqldb.PoolerNone, 2*time.Second)
	replicas := []*rig{r, r.another()}
	scatter(t, r.db, string(list), 4*n)
	waittest.Together(t, workers, func(worker int) error {
		for round := range rounds {
			batch := every(rand.IntN(3*n), n, 1)
			if (worker+round)%2 == 0 {
				batch = every(rand.IntN(4), n, 4)
			}
			got, err := replicas[worker%2].ApplyBatch(t.Context(), attempt.Increment, list, batch, "")
			if got != n || err != nil {
				return fmt.Errorf("worker %d counted %d of %d: %w", worker, got, n, err)
			}
		}
		return nil
	})
	if sum := apptest.One[int](t, r.db, `SELECT sum(attempts) FROM iidy.lists`); sum != workers*rounds*n {
		t.Errorf("%d attempts, want %d", sum, workers*rounds*n)
	}
}

// The group of calls for single items and a long batch, whatever their order, and the changes of a claim lock rows in
// the order of the key, which is not the order of the table.
func TestRowsAreLockedInOrder(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*rig) (int64, error){
		"extend":  func(r *rig) (int64, error) { return r.Extend(r.Context(), list, claim, time.Hour) },
		"release": func(r *rig) (int64, error) { return r.Release(r.Context(), list, claim) },
		"abandon": func(r *rig) (int64, error) { return r.Abandon(r.Context(), list, 0, "") },
	}
	for _, change := range attempt.Changes() {
		changes[change.String()] = func(r *rig) (int64, error) { return r.RunGroup(r.Context(), change, list, "z", "a") }
		changes["long "+change.String()] = func(r *rig) (int64, error) {
			return r.ApplyStaged(r.Context(), change, list, parts(attempt.ItemsOf("z"), attempt.ItemsOf("a")), "")
		}
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			lock := `INSERT INTO iidy.lists (list, item) VALUES ('l', $1)`
			if !strings.HasSuffix(name, attempt.Add.String()) {
				r.add("z")
				r.add("a")
				execute(t, r.db, `UPDATE iidy.lists SET claim = $1, lease_until = clock_timestamp() + '1 hour'`, string(claim))
				lock = `SELECT FROM iidy.lists WHERE item = $1 FOR UPDATE`
			}
			other := apptest.Hold(t, r.db, lock, "a")
			changed := async(func() (int64, error) { return change(r) })
			r.waitForBlocked(1)
			other.Execute(`SET LOCAL lock_timeout = '200ms'`)
			other.Execute(lock, "z") // fails when the change has locked it
			other.Rollback()
			want(t, "change", changed, "2 <nil>")
		})
	}
}

// A batch of new items alone is inserted in byte order, however it was sent: two of them that share items do not
// deadlock.
func TestNewItemsAreInsertedInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.add("first") // from now on new items are expected
	r.add("b", "é", "a", "B", "c", "a b")
	const byPlace = `SELECT string_agg(item, ',' ORDER BY ctid) FROM iidy.lists WHERE item <> 'first'`
	if got := apptest.One[string](t, r.db, byPlace); got != "B,a,a b,b,c,é" {
		t.Errorf("inserted in the order %s", got)
	}
}

// Neighbours are read together with at most a quarter more rows; other items are looked up one by one, after no
// more rows than that were read in vain.
func TestOnlyNeighboursAreReadTogether(t *testing.T) {
	t.Parallel()
	db := dbtest.Dial(t, database(t))
	scatter(t, db, "a", 100_000)
	for _, c := range []struct {
		name     string
		step     int
		together bool
		n        int
	}{{"all", 1, true, 900}, {"every other", 2, false, 900}, {"every 100th", 100, false, 900}, {"a few", 1, false, 90}} {
		var lines []string
		for i := range c.n {
			lines = append(lines, fmt.Sprintf("%07d", i*c.step))
		}
		for _, change := range []attempt.Change{attempt.Increment, attempt.Delete} {
			got := plan(t, db, postgres.SentSQL(change), "a", string(claim), strings.Join(lines, "\n"))
			_, near, _ := strings.Cut(got, "CTE near")
			near, far, _ := strings.Cut(near, "CTE far")
			far, _, _ = strings.Cut(far, "CTE held")
			together := strings.Contains(far, "on lists") && !strings.Contains(near, "never executed")
			if together != c.together {
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

// A claim whose lease ends while its change waits for a row no longer holds any of the rows.
func TestLeaseEndsWhileItsChangeWaits(t *testing.T) {
	t.Parallel()
	const n = 200
	batch := func(change attempt.Change) func(*rig) (int64, error) {
		return func(r *rig) (int64, error) { return r.ApplyBatch(r.Context(), change, list, every(0, n, 1), claim) }
	}
	staged := func(change attempt.Change) func(*rig) (int64, error) {
		return func(r *rig) (int64, error) {
			return r.ApplyStaged(r.Context(), change, list, parts(every(0, n, 1)), claim)
		}
	}
	for name, change := range map[string]func(*rig) (int64, error){
		"increment":      batch(attempt.Increment),
		"delete":         batch(attempt.Delete),
		"long increment": staged(attempt.Increment),
		"long delete":    staged(attempt.Delete),
		"extend":         func(r *rig) (int64, error) { return r.Extend(r.Context(), list, claim, time.Hour) },
		"release":        func(r *rig) (int64, error) { return r.Release(r.Context(), list, claim) },
		"abandon":        func(r *rig) (int64, error) { return r.Abandon(r.Context(), list, 0, claim) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			seed(t, r.db, string(list), n)
			// All leases end together: otherwise the first one, whose item is locked, may end before the last.
			execute(t, r.db, `UPDATE iidy.lists
				SET claim = $1, lease_until = (SELECT clock_timestamp()) + interval '1 second'`, string(claim))
			release := r.lock("0000000")
			changed := async(func() (int64, error) { return change(r) })
			r.waitForBlocked(1)
			waittest.Eventually(t, "the lease has ended", func() bool {
				return apptest.One[bool](t, r.db, `SELECT max(lease_until) < clock_timestamp() FROM iidy.lists`)
			})
			release()
			want(t, "change", changed, "0 <nil>")
			if same := apptest.One[int](t, r.db, `SELECT count(*) FROM iidy.lists
				WHERE lease_until < clock_timestamp() AND attempts = 0`); same != n {
				t.Errorf("%d of %d items are as they were", same, n)
			}
		})
	}
}

// parts returns the argument of ApplyStaged.
func parts(all ...*attempt.Items) iter.Seq2[*attempt.Items, error] {
	return func(yield func(*attempt.Items, error) bool) {
		for _, items := range all {
			if !yield(items, nil) {
				return
			}
		}
	}
}
