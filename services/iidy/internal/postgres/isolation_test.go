package postgres_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// others is how often something else is done while a row is held.
const others = 30

// wantNoDelay demands of a store whose row is still held that nobody else went into the lane of those who wait for it, and that the
// statements which gave up on a lock since begin are that lane's own tries, soon one a second, and not one for each of the others.
func wantNoDelay(t *testing.T, seen *apptest.Contention, begin time.Time) {
	t.Helper()
	if n, _ := seen.Waits(t, contention.InLane); n != 0 {
		t.Errorf("%g others were served in the lane of the held row", n)
	}
	took := time.Since(begin)
	if n := seen.Conflicts(t, contention.LockTimeout); n >= others+took.Seconds() {
		t.Errorf("%g statements gave up on a lock in %s", n, took)
	}
}

// A row that a stranger has locked delays its own callers alone, and is not taken
// for a missing one.
func TestHeldRowDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	for _, change := range []attempt.Change{attempt.Increment, attempt.Delete} {
		t.Run(change.String(), func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			s, seen := openPatient(t, dsn)
			db := apptest.Open(t, dsn)
			add(t, s, "held")
			release := hold(t, db, `SELECT FROM iidy.lists WHERE item = 'held' FOR UPDATE`)
			theirs := make(chan string, 4)
			for range cap(theirs) {
				go func() {
					n, err := s.One(t.Context(), change, list, "held", "")
					theirs <- fmt.Sprint(n, err)
				}()
			}
			waitForBlocked(t, db, 1)
			begin := time.Now()
			for i := range others {
				item := attempt.Item(fmt.Sprintf("free-%d", i))
				add(t, s, item)
				if n, err := s.One(t.Context(), change, list, item, ""); n != 1 || err != nil {
					t.Fatalf("%s: %d %v", item, n, err)
				}
			}
			if len(theirs) != 0 {
				t.Errorf("%d callers of the held row were answered before it was free", len(theirs))
			}
			wantNoDelay(t, seen, begin)
			release()
			counted := 0
			for range cap(theirs) {
				switch got := <-theirs; got {
				case "1 <nil>":
					counted++
				case "0 <nil>":
				default:
					t.Errorf("a caller of the held row got %s", got)
				}
			}
			if want := map[attempt.Change]int{attempt.Increment: 4, attempt.Delete: 1}[change]; counted != want {
				t.Errorf("%d were counted, want %d", counted, want)
			}
		})
	}
}

// An item that a stranger is adding cannot be seen, yet it too delays nobody else.
func TestUncommittedAddDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, seen := openPatient(t, dsn)
	db := apptest.Open(t, dsn)
	release := hold(t, db, `INSERT INTO iidy.lists (list, item) VALUES ('l', 'held')`)
	theirs := make(chan string, 4)
	for range cap(theirs) {
		go func() {
			n, err := s.One(t.Context(), attempt.Add, list, "held", "")
			theirs <- fmt.Sprint(n, err)
		}()
	}
	waitForBlocked(t, db, 1)
	begin := time.Now()
	free := make(chan string, 200)
	for i := range cap(free) {
		go func() {
			n, err := s.One(t.Context(), attempt.Add, list, attempt.Item(fmt.Sprintf("free-%03d", i)), "")
			free <- fmt.Sprint(n, err)
		}()
	}
	for range cap(free) {
		if got := <-free; got != "1 <nil>" {
			t.Errorf("another item: %s", got)
		}
	}
	if len(theirs) != 0 {
		t.Errorf("%d callers of the held item were answered before it was free", len(theirs))
	}
	wantNoDelay(t, seen, begin)
	release()
	counted := 0
	for range cap(theirs) {
		if got := <-theirs; got == "1 <nil>" {
			counted++
		} else if got != "0 <nil>" {
			t.Errorf("a caller of the held item got %s", got)
		}
	}
	if counted != 1 {
		t.Errorf("%d adds were counted, want 1", counted)
	}
}

// Whoever waits for too long is told that nothing was applied.
func TestRowHeldForTooLong(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
	add(t, s, "held")
	release := hold(t, db, `UPDATE iidy.lists SET attempts = attempts WHERE item = 'held'`)
	held := attempt.ItemsOf("held")
	_, single := s.One(t.Context(), attempt.Increment, list, "held", "")
	_, batch := s.Many(t.Context(), attempt.Increment, list, held, "")
	if !errors.Is(single, coalesce.ErrLocked) {
		t.Errorf("single: %v", single)
	}
	if outcome, ok := sqldb.OutcomeOf(batch); !ok || outcome != sqldb.NotApplied || sqldb.SQLState(batch) != "55P03" {
		t.Errorf("batch: %v", batch)
	}
	if n, err := s.Claim(t.Context(), list, 1, time.Minute); err != nil || n.Claim != "" {
		t.Errorf("a claim of a locked item: %+v, %v", n, err)
	}
	release()
	if n, err := s.Get(t.Context(), list, "held"); n != 0 || err != nil {
		t.Errorf("%d attempts, %v", n, err)
	}
}

// A crowd of batches on a locked row leaves the pool to single items and to reads.
func TestCrowdOfBatchesLeavesThePool(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
	add(t, s, "held", "free")
	release := hold(t, db, `SELECT FROM iidy.lists WHERE item = 'held' FOR UPDATE`)
	crowd := make(chan error, 40)
	for range cap(crowd) {
		go func() {
			_, err := s.Many(t.Context(), attempt.Increment, list, attempt.ItemsOf("held"), "")
			crowd <- err
		}()
	}
	waitForBlocked(t, db, 2)
	for range 50 {
		if n, err := s.One(t.Context(), attempt.Increment, list, "free", ""); n != 1 || err != nil {
			t.Fatalf("free: %d, %v", n, err)
		}
		if _, err := s.Get(t.Context(), list, "held"); err != nil {
			t.Fatalf("a read beside the crowd: %v", err)
		}
	}
	release()
	for range cap(crowd) {
		if err := <-crowd; err != nil && !errors.Is(err, bulkhead.ErrBusy) {
			t.Error(err)
		}
	}
}

// As many long batches as there may be are under way: one more is refused at once.
func TestTooManyLongBatches(t *testing.T) {
	t.Parallel()
	s := openStore(t, dbtest.Postgres(t, postgres.Migrations()), sqldb.PoolerNone)
	begun, end := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 3)
	for i := range cap(ended) {
		go func() {
			first := true
			_, err := s.Stage(t.Context(), attempt.Add, list, func() (*attempt.Items, error) {
				if !first {
					return nil, io.EOF
				}
				first = false
				begun <- struct{}{}
				<-end
				return attempt.ItemsOf(attempt.Item(strconv.Itoa(i))), nil
			}, "")
			ended <- err
		}()
	}
	for range cap(ended) {
		<-begun
	}
	never := func() (*attempt.Items, error) { return nil, errors.New("was read from") }
	if _, err := s.Stage(t.Context(), attempt.Add, list, never, ""); !errors.Is(err, attempt.ErrBusy) {
		t.Errorf("a fourth long batch: %v", err)
	}
	if _, err := s.Abandon(t.Context(), list, 1, ""); !errors.Is(err, attempt.ErrBusy) {
		t.Errorf("abandon beside three: %v", err)
	}
	close(end)
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n, err := s.Abandon(t.Context(), list, 1, ""); n != 0 || err != nil {
		t.Errorf("afterwards: %d %v", n, err)
	}
}

// An uploader that pauses for too long loses its transaction, and the pool gets its connection back.
func TestStalledUploadEndsItsTransaction(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
	calls := 0
	_, err := s.Stage(t.Context(), attempt.Add, list, func() (*attempt.Items, error) {
		if calls++; calls == 2 {
			// BulkStall and the server's grace, and then some.
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				if one[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'iidy' AND xact_start IS NOT NULL
					AND datname = current_database()`) == 0 {
					break
				}
			}
		}
		return attempt.ItemsOf(attempt.Item(strconv.Itoa(calls))), nil
	}, "")
	if outcome, ok := sqldb.OutcomeOf(err); !ok || outcome != sqldb.NotApplied {
		t.Errorf("got %v", err)
	}
	if exists, err := s.Exists(t.Context(), list); exists || err != nil {
		t.Errorf("something was left: %t %v", exists, err)
	}
}
