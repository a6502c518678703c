package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// A server without autocommit, with chained transactions and safe updates: the first
// statements of each session set that right. Then the server is killed and restarted: the
// pool detects its dead connections before it sends anything on them.
func TestMySQLServer(t *testing.T) {
	t.Parallel()
	server, url := dbtest.MariaServer(t, map[string]string{
		"autocommit": "0", "completion-type": "1", "init-connect": "SET sql_safe_updates=1",
	})
	db := open(t, url, quickMaria)
	execute(t, db, `CREATE TABLE counter (id varchar(20), n bigint)`)
	execute(t, db, `INSERT INTO counter VALUES ('a', 0)`)
	for range 3 {
		if err := execOnce(t.Context(), db, `UPDATE counter SET n = n + ?`, 1); err != nil {
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

// A service that knows PostgreSQL alone refuses the URL of another engine.
func TestEnginesThatAreNotAskedFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url, want string
		engines   []sqldb.Engine
	}{
		{"mysql://u:s3cret@h/db", "must begin with postgres://", nil},
		{"postgres://u:s3cret@h/db?sslmode=disable", "must begin with mysql://", []sqldb.Engine{sqldb.MySQL}},
		{"oracle://u:s3cret@h/db", "postgres:// or mysql://", []sqldb.Engine{sqldb.MySQL, sqldb.PostgreSQL}},
	} {
		settings := sqldb.Settings{URL: tc.url, Engines: tc.engines}
		_, err := sqldb.Open(t.Context(), settings, slog.New(slog.DiscardHandler), nil)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", tc.url, err)
		}
	}
}

func TestMySQLErrorsAreSorted(t *testing.T) {
	t.Parallel()
	url := mariaCounters(t)
	db := open(t, url, func(s *sqldb.Settings) {
		s.LockTimeout, s.StatementTimeout = 200*time.Millisecond, 400*time.Millisecond
	})
	for statement, want := range map[string]sqldb.Reason{
		`INSERT INTO counter VALUES ('a', 4)`:               sqldb.Constraint,
		`UPDATE counter SET n = 2000000000`:                 sqldb.Constraint,
		`INSERT INTO counter VALUES (repeat('secret',9),1)`: sqldb.Data,
		`INSERT INTO nowhere VALUES (1)`:                    sqldb.Other,
		`SELECT sleep(5)`:                                   sqldb.Timeout,
		`SELECT secret FROM`:                                sqldb.Other,
	} {
		err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			var rows []any
			if strings.HasPrefix(statement, "SELECT") {
				return tx.SelectContext(ctx, &rows, statement)
			}
			_, err := tx.ExecContext(ctx, statement)
			return err
		})
		wantError(t, err, sqldb.NotApplied, want)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the text of the error holds a value: %v", err)
		}
	}
	err := execTx(t.Context(), db, `INSERT INTO counter VALUES ('a', 4)`)
	if e := classified(t, err); e.Constraint != "PRIMARY" || e.SQLState != "23000" {
		t.Errorf("constraint %q, state %q", e.Constraint, e.SQLState)
	}
	err = db.GetContext(t.Context(), new(int64), `SELECT n FROM counter WHERE id = 'none'`)
	if !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no row: %v", err)
	}
}

func TestMySQLMisconfigured(t *testing.T) {
	t.Parallel()
	url := dbtest.EmptyMariaDB(t)
	for name, bad := range map[string]string{
		"wrong password":   strings.Replace(url, "@", "wrong@", 1),
		"unknown database": strings.Replace(url, "/rowlock_test_", "/no_", 1),
		"no TLS":           strings.Replace(url, "tls=false", "tls=true", 1),
	} {
		if err := open(t, bad).Ping(t.Context()); !sqldb.Misconfigured(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := open(t, "mysql://root@127.0.0.1:1/x").Ping(t.Context()); err == nil || sqldb.Misconfigured(err) {
		t.Errorf("no server: %v", err)
	}
}

func TestMySQLSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mysql://u:p@h:3306":                  "must name a database",
		"mysql:///db":                         "must name a host",
		"mysql://u:p@h/db?interpolate=false":  "takes tls and socket alone",
		"mysql://u:p@h/db?tls=nonsense":       "cannot be used",
		"mysql://u:p@h/db?tls=true&socket=/x": "both tls and socket",
		"mysql://u:p@h/db?%zz":                "cannot be decoded",
		"oracle://u:p@h/db":                   "must begin with postgres:// or mysql://",
		"mysql://u:p ss@h:x/db":               "cannot be read",
	} {
		settings := sqldb.Settings{URL: url, Engines: bothEngines()}
		_, err := sqldb.Open(t.Context(), settings, slog.New(slog.DiscardHandler), nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "p ss") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	pooled := sqldb.Settings{URL: "mysql://u:p@h/db", Engines: bothEngines(), Pooler: sqldb.PoolerTransaction}
	if _, err := sqldb.Open(t.Context(), pooled, slog.New(slog.DiscardHandler), nil); err == nil {
		t.Error("a pooler of PostgreSQL's is accepted")
	}
}

func TestMySQLWarns(t *testing.T) {
	t.Parallel()
	log := warnings(t, sqldb.Settings{URL: dbtest.EmptyMariaDB(t)})
	for _, want := range []string{"innodb_flush_log_at_trx_commit=2", "superuser"} {
		if !strings.Contains(log, want) {
			t.Errorf("no warning of %s in %s", want, log)
		}
	}
}
