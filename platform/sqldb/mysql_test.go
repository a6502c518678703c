package sqldb_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// An UPDATE that changes nothing has found its row all the same.
func TestMySQLCountsFoundRows(t *testing.T) {
	t.Parallel()
	db := open(t, mariaCounters(t))
	result, err := db.Once().ExecContext(t.Context(), `UPDATE counter SET n = n WHERE id = 'a'`)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		t.Errorf("%d rows, %v, want 1", n, err)
	}
}

func TestMySQLLostReplies(t *testing.T) {
	t.Parallel()
	inTx := func(db *sqldb.DB) func(context.Context) error { return incrementTx(db) }
	for name, c := range map[string]struct {
		call    func(*sqldb.DB) func(context.Context) error
		when    faultproxy.When
		at      string
		outcome sqldb.Outcome
		value   int64
	}{
		"Once, applied":          {incrementOnce, faultproxy.AfterStatement, "UPDATE counter", sqldb.Unknown, 1},
		"Once, not applied":      {incrementOnce, faultproxy.BeforeStatement, "UPDATE counter", sqldb.Unknown, 0},
		"InTx, statement":        {inTx, faultproxy.AfterStatement, "UPDATE counter", sqldb.NotApplied, 0},
		"InTx, COMMIT applied":   {inTx, faultproxy.AfterCommit, "", sqldb.Unknown, 1},
		"InTx, COMMIT lost":      {inTx, faultproxy.BeforeCommit, "", sqldb.Unknown, 0},
		"InTx, BEGIN sent again": {inTx, faultproxy.AfterStatement, "START TRANSACTION", sqldb.NotApplied, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := mariaCounters(t)
			direct := open(t, url)
			proxy := faultproxy.New(t, url)
			db := open(t, proxy.DSN(url), briefly)
			proxy.Cut(c.when, faultproxy.FIN, faultproxy.Matching(c.at))
			err := c.call(db)(t.Context())
			if proxy.Cuts() != 1 {
				t.Fatalf("%d cuts, want 1: the test tested nothing", proxy.Cuts())
			}
			if !strings.Contains(name, "sent again") {
				wantError(t, err, c.outcome, sqldb.Connection)
			} else if err != nil {
				t.Error(err)
			}
			waittest.Eventually(t, "the counter is right", func() bool { return value(t, direct, "a") == c.value })
			if err := c.call(db)(t.Context()); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// A server without autocommit, with chained transactions and safe updates: the first
// statements of each session set that right. Then the server is killed and restarted: the
// pool detects its dead connections before it sends anything on them.
func TestMySQLServer(t *testing.T) {
	t.Parallel()
	server, url := dbtest.MariaServer(t, map[string]string{
		"autocommit": "0", "completion-type": "1", "init-connect": "SET sql_safe_updates=1",
	})
	db := open(t, url, briefly)
	execute(t, db, `CREATE TABLE counter (id varchar(20), n bigint)`)
	execute(t, db, `INSERT INTO counter VALUES ('a', 0)`)
	for range 3 {
		if err := incrementOnce(db)(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := incrementTx(db)(t.Context()); err != nil {
			t.Fatal(err)
		}
		value(t, db, "a") // leaves no transaction open that the next round would meet
	}
	wantValue(t, open(t, url), "a", 6)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	wantError(t, incrementTx(db)(t.Context()), sqldb.NotApplied, sqldb.Connection)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := incrementTx(db)(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantValue(t, db, "a", 7)
}
