package sqldb_test

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Reads that do not end, here because their table is locked, leave half of the pool to changes, to reads that changes
// wait for, as the look-up of a lost COMMIT, and to pings. The other reads wait, and finish afterwards.
func TestReadsLeaveHalfThePoolToChanges(t *testing.T) {
	t.Parallel()
	const conns, readers = 4, 24
	url := counterDatabase(t)
	direct := dbtest.Dial(t, url)
	apptest.Execute(t, direct, `CREATE TABLE page AS SELECT 7 AS line`)
	proxy := faultproxy.New(t, url)
	db := open(t, proxy.DSN(url), func(s *sqldb.Settings) {
		s.MaxOpenConns, s.LockTimeout, s.StatementTimeout = conns, time.Minute, 2*time.Minute
	})
	holder := apptest.Hold(t, direct, `LOCK TABLE page IN ACCESS EXCLUSIVE MODE`)
	read := func(ctx context.Context, i int) error {
		var line int
		if i%2 == 0 {
			return db.GetContext(ctx, &line, `SELECT line FROM page`)
		}
		return db.SelectContext(ctx, &[]int{}, `SELECT line FROM page`)
	}
	done := make(chan error, readers)
	for i := range readers {
		go func() { done <- read(t.Context(), i) }()
	}
	apptest.WaitForBlocked(t, direct, conns/2)
	waittest.Eventually(t, "the other reads wait", func() bool { return db.Stats().WaitCount >= readers-conns })

	proxy.Cut(faultproxy.AfterCommit, faultproxy.RST, faultproxy.Matching("UPDATE counter")) // which is then looked up
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var n int
	for what, call := range map[string]func() error{
		"a statement": func() error { return incrementOnce(db)(within) },
		"a transaction": func() error {
			return db.Resolve(within, incrementTx(db, sqldb.Proven())(within), func(ctx context.Context) (bool, error) {
				return true, db.Repeatable().GetContext(ctx, &n, `SELECT 1`)
			})
		},
		"a read of a change": func() error { return db.Repeatable().GetContext(within, &n, `SELECT 1`) },
		"a ping":             func() error { return db.Ping(within) },
	} {
		if err := call(); err != nil {
			t.Errorf("%s beside the reads: %v", what, err)
		}
	}
	if proxy.Cuts() != 1 {
		t.Errorf("%d cuts, want that of the transaction", proxy.Cuts())
	}
	if s := db.Stats(); s.InUse != conns/2 || s.WaitCount != readers-conns/2 {
		t.Errorf("%d connections in use and %d waits, want %d and %d", s.InUse, s.WaitCount, conns/2, readers-conns/2)
	}
	brief, leave := context.WithTimeout(t.Context(), time.Millisecond)
	defer leave()
	wantError(t, read(brief, 0), sqldb.NotApplied, sqldb.Overloaded)

	holder.Rollback()
	for range readers {
		if err := <-done; err != nil {
			t.Errorf("a read afterwards: %v", err)
		}
	}
	if s := db.Stats(); s.WaitDuration <= 0 {
		t.Errorf("the reads waited for %s", s.WaitDuration)
	}
	wantValue(t, db, "a", 2)
}
