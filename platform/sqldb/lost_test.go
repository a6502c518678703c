package sqldb_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// quick shortens the timeouts for tests: the wait for an answer ends after 1.3 s.
func quick(s *sqldb.Settings) {
	s.LockTimeout, s.StatementTimeout = 100*time.Millisecond, 300*time.Millisecond
}

// lostCase is one call whose connection ends at one point.
type lostCase struct {
	call    func(*sqldb.DB) func(context.Context) error
	when    faultproxy.When
	ends    []faultproxy.How
	applied bool // the call succeeds; else it has the outcome
	outcome sqldb.Outcome
	value   int64 // what the server has afterwards
}

func lostCases() map[string]lostCase {
	plain := func(db *sqldb.DB) func(context.Context) error { return incrementTx(db) }
	// A request that hangs looks to the client, which waits for 1.3 s, like an answer that does.
	all := []faultproxy.How{faultproxy.FIN, faultproxy.RST, faultproxy.Hang}
	cut, one := all[:2], all[:1]
	return map[string]lostCase{
		"Once, applied":              {incrementOnce, faultproxy.AfterStatement, all, false, sqldb.Unknown, 1},
		"Once, not applied":          {incrementOnce, faultproxy.BeforeStatement, cut, false, sqldb.Unknown, 0},
		"InTx, statement":            {plain, faultproxy.AfterStatement, all, false, sqldb.NotApplied, 0},
		"InTx, statement unsent":     {plain, faultproxy.BeforeStatement, cut, false, sqldb.NotApplied, 0},
		"InTx, COMMIT applied":       {plain, faultproxy.AfterCommit, all, false, sqldb.Unknown, 1},
		"InTx, COMMIT lost":          {plain, faultproxy.BeforeCommit, cut, false, sqldb.Unknown, 0},
		"InTx resolved, applied":     {resolvedTx(nil), faultproxy.AfterCommit, one, true, 0, 1},
		"InTx resolved, not applied": {resolvedTx(nil), faultproxy.BeforeCommit, one, false, sqldb.NotApplied, 0},
		"InTx resolved, unanswered":  {resolvedTx(errDomain), faultproxy.AfterCommit, one, false, sqldb.Unknown, 1},
		"Once resolved, applied":     {resolvedOnce, faultproxy.AfterStatement, one, true, 0, 1},

		"MySQL, Once, applied":        {incrementOnce, faultproxy.AfterStatement, one, false, sqldb.Unknown, 1},
		"MySQL, Once, not applied":    {incrementOnce, faultproxy.BeforeStatement, one, false, sqldb.Unknown, 0},
		"MySQL, InTx, statement":      {plain, faultproxy.AfterStatement, one, false, sqldb.NotApplied, 0},
		"MySQL, InTx, COMMIT applied": {plain, faultproxy.AfterCommit, one, false, sqldb.Unknown, 1},
		"MySQL, InTx, COMMIT lost":    {plain, faultproxy.BeforeCommit, one, false, sqldb.Unknown, 0},
		"MySQL, InTx, BEGIN again":    {plain, faultproxy.AfterStatement, one, true, 0, 1},
	}
}

// TestLostReply: wherever the connection is cut, a change is made at most once and the
// reported outcome is true.
func TestLostReply(t *testing.T) {
	t.Parallel()
	names := map[faultproxy.How]string{faultproxy.FIN: "FIN", faultproxy.RST: "RST", faultproxy.Hang: "hang"}
	for title, c := range lostCases() {
		for _, how := range c.ends {
			t.Run(title+", "+names[how], func(t *testing.T) {
				t.Parallel()
				database, at := counterDatabase, "UPDATE counter"
				if strings.HasPrefix(title, "MySQL") {
					database = mariaCounters
				}
				if strings.Contains(title, "BEGIN") {
					at = "START TRANSACTION"
				}

				url := database(t)
				direct := open(t, url)
				proxy := faultproxy.New(t, url)
				reg := prometheus.NewRegistry()
				// One connection, also for the look-up of a lost COMMIT.
				settings := sqldb.Settings{URL: proxy.DSN(url), Engines: bothEngines(), MaxOpenConns: 1}
				quick(&settings)
				db := apptest.Pool(t, settings, reg)
				proxy.Cut(c.when, how, faultproxy.Matching(at))

				err := c.call(db)(t.Context())
				if proxy.Cuts() != 1 {
					t.Fatalf("%d cuts, want 1: the test tested nothing", proxy.Cuts())
				}
				if !c.applied {
					wantError(t, err, c.outcome, sqldb.Connection)
				} else if err != nil {
					t.Fatal(err)
				}
				wantValue(t, direct, "a", c.value)

				unknown, counted := 0.0, 0.0
				if !c.applied && c.outcome == sqldb.Unknown {
					unknown = 1
				}
				for _, operation := range []string{"statement", "transaction"} {
					counted += apptest.Gathered(t, reg,
						fmt.Sprintf(`rowlock_outcome_unknown_total{operation=%q,pool="main"}`, operation))
				}
				if counted != unknown {
					t.Errorf("counted %v unknown outcomes, want %v", counted, unknown)
				}
				// The pool has closed the connection.
				if err = increment(t.Context(), db); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		}
	}
}

// TestPlainAutocommitIsNotRepeated: even through *sql.DB, which repeats a call
// when lib/pq says driver.ErrBadConn, a connection of this package is safe.
func TestPlainAutocommitIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, how := range []faultproxy.How{faultproxy.FIN, faultproxy.RST} {
		url := counterDatabase(t)
		proxy := faultproxy.New(t, url)
		connector, err := sqldb.Connector(proxy.DSN(url), "", "")
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		// The connection is open already, as it is in a service.
		if err = db.PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		proxy.Cut(faultproxy.AfterStatement, how)
		//nolint:forbidigo // the mistake under test
		if _, err = db.ExecContext(t.Context(), oneUpdate, 1); err == nil {
			t.Error("a lost reply passed for success")
		}
		if err = db.Close(); err != nil {
			t.Error(err)
		}
		wantValue(t, open(t, url), "a", 1)
	}
}

// TestReadsAreRepeated: a read survives the loss of its connection.
func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	proxy := faultproxy.New(t, url)
	db := open(t, proxy.DSN(url), quick)
	for _, how := range []faultproxy.How{faultproxy.FIN, faultproxy.RST} {
		proxy.Cut(faultproxy.AfterStatement, how)
		wantValue(t, db, "a", 0)
		proxy.Cut(faultproxy.AfterStatement, how)
		var ids []string
		err := db.SelectContext(t.Context(), &ids, `SELECT id FROM counter WHERE n >= $1 ORDER BY id`, 0)
		if err != nil || len(ids) != 2 {
			t.Errorf("got %v, %v", ids, err)
		}
	}
	if proxy.Cuts() != 4 {
		t.Errorf("%d cuts, want 4", proxy.Cuts())
	}
	// Three times in a row is an error, and a certain one. So is once, if the read timed out: the next would time out too.
	read := func() error { return db.GetContext(t.Context(), new(int), `SELECT n FROM counter WHERE id = $1`, "a") }
	proxy.Cut(faultproxy.AfterStatement, faultproxy.FIN, faultproxy.Times(3))
	wantError(t, read(), sqldb.NotApplied, sqldb.Connection)
	proxy.Cut(faultproxy.AfterStatement, faultproxy.Hang)
	wantError(t, read(), sqldb.NotApplied, sqldb.Connection)
}

// TestIdleConnectionsAreChecked: connections that ended while they were idle
// cost no caller an error, however they ended.
func TestIdleConnectionsAreChecked(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	direct := open(t, url)
	proxy := faultproxy.New(t, url)
	db := open(t, proxy.DSN(url), func(s *sqldb.Settings) { s.ApplicationName = "idle" })
	ends := map[string]func(){
		"FIN": func() { proxy.Drop(faultproxy.FIN) },
		"RST": func() { proxy.Drop(faultproxy.RST) },
		"terminated": func() {
			execute(t, direct, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
				WHERE application_name = 'idle' AND datname = current_database()`)
		},
	}
	want := int64(0)
	for name, end := range ends {
		for _, call := range []func(context.Context) error{incrementOnce(db), incrementTx(db)} {
			if err := db.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			end()
			waittest.Eventually(t, "the session is gone", func() bool {
				var sessions int
				err := direct.GetContext(t.Context(), &sessions, `SELECT count(*) FROM pg_stat_activity
					WHERE application_name = 'idle' AND datname = current_database()`)
				return err == nil && sessions == 0
			})
			if err := call(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			want++
		}
	}
	wantValue(t, direct, "a", want)
}

// TestBlackHole: every call with a near deadline ends although the network drops everything, also the request to
// cancel. The calls wait at the same time, each on a network of its own.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	var all sync.WaitGroup
	for name, call := range map[string]func(*sqldb.DB) func(context.Context) error{
		"Once": incrementOnce,
		"InTx": func(db *sqldb.DB) func(context.Context) error { return incrementTx(db) },
		"Get": func(db *sqldb.DB) func(context.Context) error {
			return func(ctx context.Context) error { return db.GetContext(ctx, new(int), `SELECT 1`) }
		},
		"Ping": func(db *sqldb.DB) func(context.Context) error { return db.Ping },
	} {
		proxy := faultproxy.New(t, url)
		db := open(t, proxy.DSN(url)+"&connect_timeout=3", quick)
		if err := db.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		proxy.Pause()
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := call(db)(ctx)
			// At worst: the wait of 1.3 s, then one attempt to connect of 3 s.
			if _, ok := sqldb.OutcomeOf(err); !ok || time.Since(start) > 10*time.Second {
				t.Errorf("%s got %v after %s", name, err, time.Since(start))
			}
			proxy.Resume()
		})
	}
	all.Wait()
}

// TestOwnStatementTimeoutBoundsTheWait: a transaction with a longer statement timeout than the pool's is waited for
// longer, and the next call as long as any other.
func TestOwnStatementTimeoutBoundsTheWait(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	proxy := faultproxy.New(t, url)
	db := open(t, proxy.DSN(url), quick)
	err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `SELECT pg_sleep(1.5)`)
		return err
	}, sqldb.WithStatementTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	proxy.Pause()
	start := time.Now()
	err = incrementOnce(db)(t.Context())
	wantError(t, err, sqldb.Unknown, sqldb.Connection)
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("the next call took %s", took)
	}
}

// TestDeadClientsStatementIsNotApplied: a statement that waits for a lock when
// its client goes away is cancelled, not applied once the lock comes free.
func TestDeadClientsStatementIsNotApplied(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	direct := open(t, url)
	proxy := faultproxy.New(t, url)
	// The timeouts must not end the statement before the server notices.
	db := open(t, proxy.DSN(url), func(s *sqldb.Settings) {
		s.LockTimeout, s.StatementTimeout = time.Minute, 2*time.Minute
	})
	release := hold(t, direct, "a")
	done := make(chan error, 1)
	go func() { done <- increment(context.WithoutCancel(t.Context()), db) }()
	waitBlocked(t, direct, 1)
	proxy.Drop(faultproxy.FIN)
	wantError(t, <-done, sqldb.Unknown, sqldb.Connection)
	waitBlocked(t, direct, 0)
	release()
	wantValue(t, direct, "a", 0)
}

// TestResolveAsksAgain: after an internal error of the server, which may pass, and not after a mistake in a statement,
// nor where a right is missing.
func TestResolveAsksAgain(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	for failed, want := range map[sqldb.Error]int{
		{SQLState: "XX000"}: 2, {SQLState: "42P01"}: 1, {SQLState: "42501", Reason: sqldb.Denied}: 1,
	} {
		asked := 0
		err := db.Resolve(t.Context(), &sqldb.Error{}, func(context.Context) (bool, error) {
			if asked++; asked > 1 {
				return true, nil
			}
			return false, &failed
		})
		if asked != want {
			t.Errorf("%s: asked %d times, want %d", failed.SQLState, asked, want)
		}
		if known := err == nil; known != (want > 1) {
			t.Errorf("%s: %v", failed.SQLState, err)
		}
	}
}
