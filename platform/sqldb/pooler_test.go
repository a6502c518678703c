package sqldb_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// pooled opens a pool through PgBouncer in transaction mode with two server
// connections.
func pooled(t *testing.T, direct string) *sqldb.DB {
	t.Helper()
	const serverConnections = 2
	return open(t, dbtest.PgBouncer(t, direct, serverConnections), func(s *sqldb.Settings) {
		s.Pooler, s.MaxOpenConns = sqldb.PoolerTransaction, 16
	})
}

// TestPoolerAnswersBelongToTheirQuestions: sixteen clients share two server
// connections, each gets the rows it asked for, and every increment is applied once.
func TestPoolerAnswersBelongToTheirQuestions(t *testing.T) {
	t.Parallel()
	direct := counterDatabase(t)
	db := pooled(t, direct)
	waittest.Together(t, 16, func(i int) error {
		for j := range 8 {
			var text, pair string
			want := fmt.Sprintf("%d-%d", i, j)
			err := errors.Join(
				db.GetContext(t.Context(), &text, `SELECT $1::text`, want), incrementOnce(db)(t.Context()),
				db.GetContext(t.Context(), &pair, `SELECT concat_ws('-', $1::int, $2::int)`, i, j),
				incrementTx(db)(t.Context()))
			if err != nil || text != want || pair != want {
				return fmt.Errorf("got %q and %q, want %q: %w", text, pair, want, err)
			}
		}
		return nil
	})
	wantValue(t, open(t, direct), "a", 2*16*8)
}

// TestPoolerOnceTimesOut: without a startup parameter the server has no timeout,
// so Once asks it to cancel, and the server's answer is certain.
func TestPoolerOnceTimesOut(t *testing.T) {
	t.Parallel()
	direct := counterDatabase(t)
	db := open(t, dbtest.PgBouncer(t, direct, 2), func(s *sqldb.Settings) {
		s.Pooler, s.LockTimeout, s.StatementTimeout = sqldb.PoolerTransaction, 100*time.Millisecond, 300*time.Millisecond
	})
	release := hold(t, open(t, direct), "a")
	err := increment(t.Context(), db)
	wantError(t, err, sqldb.NotApplied, sqldb.Timeout)
	if sqldb.SQLState(err) != "57014" {
		t.Errorf("got %v", err)
	}
	release()
	if err := increment(t.Context(), db); err != nil {
		t.Error(err)
	}
	wantValue(t, open(t, direct), "a", 1)
}
