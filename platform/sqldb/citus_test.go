package sqldb_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// citusCounters starts a cluster with distributed counters, and returns its URL, the proxies between its nodes, and the
// workers' URLs.
func citusCounters(t *testing.T) (dsn string, workers []*faultproxy.Proxy, urls []string) {
	t.Helper()
	dsn = dbtest.Citus(t, func(worker string) string {
		urls = append(urls, worker)
		proxy := faultproxy.New(t, worker)
		workers = append(workers, proxy)
		u, err := url.Parse(proxy.DSN(worker))
		if err != nil {
			t.Fatal(err)
		}
		return u.Port()
	})
	admin := open(t, dsn)
	execute(t, admin, `CREATE TABLE counter (id text PRIMARY KEY, n bigint NOT NULL)`)
	execute(t, admin, `SELECT create_distributed_table('counter', 'id')`)
	execute(t, admin, `INSERT INTO counter VALUES ('a', 0), ('b', 0), ('c', 0), ('d', 0)`)
	return dsn, workers, urls
}

func onCitus(s *sqldb.Settings) {
	s.Cluster = sqldb.ClusterCitus
	s.Session = map[string]string{"plan_cache_mode": "force_generic_plan"} // which Citus could not plan
}

// TestCitusProvesLess: the coordinator answers with an error when it has lost a worker's answer, although the worker
// has changed the row. Only a refusal of the statement, and an error before COMMIT, prove that nothing was applied. A
// transaction's timeouts are those of the worker that its statements run on.
func TestCitusProvesLess(t *testing.T) {
	t.Parallel()
	dsn, workers, _ := citusCounters(t)
	db := open(t, dsn, onCitus)
	const add = `UPDATE counter SET n = n + 1 WHERE id = $1`
	once := func(id string) error { return execOnce(t.Context(), db, add, id) }
	inTx := func(ids ...string) error {
		return db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			for _, id := range ids {
				if _, err := tx.ExecContext(ctx, add, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	cut := func(statement string, when faultproxy.When) {
		for _, w := range workers {
			w.Cut(when, faultproxy.RST, faultproxy.Matching(statement))
		}
	}
	cuts := func() (n int) {
		for _, w := range workers {
			n += w.Cuts()
			w.StopCutting()
		}
		return n
	}

	cut("UPDATE public.counter", faultproxy.AfterStatement)
	wantError(t, once("a"), sqldb.Unknown, sqldb.Connection)
	if cuts() == 0 {
		t.Error("no reply was cut: the test proved nothing")
	}
	wantValue(t, db, "a", 1)

	cut("UPDATE public.counter", faultproxy.AfterStatement)
	err := inTx("b")
	cuts()
	wantError(t, err, sqldb.NotApplied, sqldb.Connection)
	wantValue(t, db, "b", 0)

	cut("COMMIT", faultproxy.AfterCommit)
	err = inTx("c")
	if cuts() == 0 {
		t.Error("no COMMIT was cut: the test proved nothing")
	}
	if outcome, ok := sqldb.OutcomeOf(err); err != nil && (!ok || outcome != sqldb.Unknown) {
		t.Errorf("a lost COMMIT of a worker: %v, want unknown, or success", err)
	}

	err = execOnce(t.Context(), db, `INSERT INTO counter VALUES ($1, 0)`, "d")
	if outcome, _ := sqldb.OutcomeOf(err); sqldb.SQLState(err) != "23505" || outcome != sqldb.NotApplied {
		t.Errorf("a key that is taken: %v, want NotApplied", err)
	}
	if err := errors.Join(once("a"), inTx("a", "b", "c", "d")); err != nil {
		t.Errorf("after the faults: %v", err)
	}

	var timeouts string
	err = db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &timeouts,
			`SELECT current_setting('lock_timeout') || ' ' || current_setting('statement_timeout') FROM counter WHERE id = 'a'`)
	}, sqldb.WithLockTimeout(1234*time.Millisecond), sqldb.WithStatementTimeout(56*time.Second))
	if err != nil || timeouts != "1234ms 56s" {
		t.Errorf("the worker has %q, %v", timeouts, err)
	}
}

// TestCitusWorkerWithoutItsStandby: a worker commits without its synchronous standby, because the wait was cancelled,
// and the coordinator passes its warning on.
func TestCitusWorkerWithoutItsStandby(t *testing.T) {
	t.Parallel()
	dsn, _, urls := citusCounters(t)
	var workers []*sqldb.DB
	for _, u := range urls {
		worker := open(t, u+"&synchronous_commit=local")
		for _, statement := range []string{
			`ALTER SYSTEM SET synchronous_standby_names = 'absent'`, `SELECT pg_reload_conf()`,
		} {
			if err := execOnce(t.Context(), worker, statement); err != nil {
				t.Fatal(err)
			}
		}
		workers = append(workers, worker)
	}
	db := open(t, dsn, onCitus)
	done := make(chan error, 1)
	go func() {
		done <- execOnce(t.Context(), db, `UPDATE counter SET n = n + 1 WHERE id = $1`, "a")
	}()
	waittest.Eventually(t, "the worker waits for its standby", func() bool {
		cancelled := 0
		for _, worker := range workers {
			var n int
			if worker.GetContext(t.Context(), &n, `SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
				WHERE wait_event = 'SyncRep' AND query LIKE 'UPDATE%'`) == nil {
				cancelled += n
			}
		}
		return cancelled == 1
	})
	wantError(t, <-done, sqldb.Unknown, sqldb.Timeout)
	wantValue(t, db, "a", 1)
}
