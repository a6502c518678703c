package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.MainWithoutLeaks(m)) }

const lockTimeout, statementTimeout = time.Second, 4 * time.Second

// openStore opens the store of one replica.
func openStore(t *testing.T, dsn string, pooler sqldb.Pooler) *postgres.Store {
	t.Helper()
	return openSeen(t, dsn, pooler, prometheus.NewRegistry(), nil)
}

// openSeen opens the store of one replica, whose metrics the test reads.
func openSeen(
	t *testing.T, dsn string, pooler sqldb.Pooler, reg *prometheus.Registry, seen *contention.Metrics,
) *postgres.Store {
	t.Helper()
	db := apptest.Pool(t, sqldb.Settings{
		URL: dsn, Pooler: pooler, MaxOpenConns: 8, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
		ApplicationName: "events", Contention: seen, Session: postgres.Session(),
	}, reg)
	s := postgres.New(groupcommit.Limits{
		DB: db, Slots: groupcommit.NewSlots(db, postgres.Migrations().HistorySchema, statementTimeout),
		LockTimeout: lockTimeout, StatementTimeout: statementTimeout, Contention: seen,
	})
	apptest.CloseAtEnd(t, s.Close)
	return s
}

// TestStorePassesTheSuite: the suite's callers and workers meet no deadlock and no serialization failure, as they would
// if an UPDATE moved the rows.
func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	eventtest.Exercise(t, func(t *testing.T) (one, other eventtest.Store) {
		t.Helper()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		apptest.WatchDeadlocks(t, dsn)
		registries := []*prometheus.Registry{prometheus.NewRegistry(), prometheus.NewRegistry()}
		t.Cleanup(func() {
			for _, reg := range registries {
				if n := apptest.Gathered(t, reg, `rowlock_retries_total{pool="main",sqlstate="40001"}`); n != 0 {
					t.Errorf("%g transactions were run again", n)
				}
			}
		})
		return openSeen(t, dsn, sqldb.PoolerNone, registries[0], nil), openSeen(t, dsn, sqldb.PoolerNone, registries[1], nil)
	})
}

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	eventtest.Exercise(t, func(t *testing.T) (one, other eventtest.Store) {
		t.Helper()
		dsn := dbtest.PgBouncer(t, dbtest.Postgres(t, postgres.Migrations()), 6)
		return openStore(t, dsn, sqldb.PoolerTransaction), openStore(t, dsn, sqldb.PoolerTransaction)
	})
}
