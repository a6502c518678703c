package mysql_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
)

func TestMain(m *testing.M) { os.Exit(dbtest.MainWithoutLeaks(m)) }

const lockTimeout, statementTimeout = 2 * time.Second, 4 * time.Second

// openPool opens a pool; seen, which may be nil, gets its lock metrics.
func openPool(t *testing.T, dsn string, seen *contention.Metrics) *sqldb.DB {
	t.Helper()
	return apptest.Pool(t, sqldb.Settings{
		URL: dsn, Engines: []sqldb.Engine{sqldb.MySQL}, MaxOpenConns: 8,
		LockTimeout: lockTimeout, StatementTimeout: statementTimeout, Contention: seen,
	}, prometheus.NewRegistry())
}

// openStore opens the store of one replica; seen, which may be nil, gets its lock metrics.
func openStore(t *testing.T, dsn string, seen *contention.Metrics) *mysql.Store {
	t.Helper()
	s, err := mysql.New(openPool(t, dsn, seen), coalesce.Limits{
		LockTimeout: lockTimeout, StatementTimeout: statementTimeout, Contention: seen,
	})
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
		return openStore(t, dsn, nil), openStore(t, dsn, nil)
	})
}
