package mysql_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/allocate"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
)

func TestMain(m *testing.M) {
	status := dbtest.Main(m)
	if err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

const lockTimeout, statementTimeout = 2 * time.Second, 4 * time.Second

func openPool(t *testing.T, dsn string) *sqldb.DB {
	t.Helper()
	return openSeen(t, dsn, nil)
}

// openSeen opens a pool whose lock metrics the test reads.
func openSeen(t *testing.T, dsn string, seen *contention.Metrics) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: dsn, Engines: []sqldb.Engine{sqldb.MySQL}, MaxOpenConns: 8,
		LockTimeout: lockTimeout, StatementTimeout: statementTimeout, Contention: seen,
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// openStore opens the store of one replica.
func openStore(t *testing.T, dsn string) *mysql.Store {
	t.Helper()
	return newSeen(t, openPool(t, dsn), nil)
}

// newSeen returns a store whose lock metrics the test reads.
func newSeen(t *testing.T, db *sqldb.DB, seen *contention.Metrics) *mysql.Store {
	t.Helper()
	s, err := mysql.New(db, allocate.Options{
		LockTimeout: lockTimeout, StatementTimeout: statementTimeout, Contention: seen,
	}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	eventtest.Exercise(t, func(t *testing.T) (one, other eventtest.Store) {
		t.Helper()
		dsn := dbtest.MariaDB(t, mysql.Migrations())
		return openStore(t, dsn), openStore(t, dsn)
	})
}
