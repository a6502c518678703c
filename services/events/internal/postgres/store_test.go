package postgres_test

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
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

func TestMain(m *testing.M) {
	status := dbtest.Main(m)
	if err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

const lockTimeout, statementTimeout = time.Second, 4 * time.Second

func openPool(t *testing.T, dsn string, pooler sqldb.Pooler) *sqldb.DB {
	t.Helper()
	return openCounted(t, dsn, pooler, prometheus.NewRegistry(), nil)
}

// openCounted opens a pool whose metrics the test reads.
func openCounted(
	t *testing.T, dsn string, pooler sqldb.Pooler, reg *prometheus.Registry, seen *contention.Metrics,
) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: dsn, Pooler: pooler, MaxOpenConns: 8, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
		ApplicationName: "events", Contention: seen,
	}, slog.New(slog.DiscardHandler), reg)
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
func openStore(t *testing.T, dsn string, pooler sqldb.Pooler) *postgres.Store {
	t.Helper()
	return newStore(t, openPool(t, dsn, pooler))
}

func newStore(t *testing.T, db *sqldb.DB) *postgres.Store {
	t.Helper()
	return newSeen(t, db, nil)
}

// newSeen returns a store whose lock metrics the test reads.
func newSeen(t *testing.T, db *sqldb.DB, seen *contention.Metrics) *postgres.Store {
	t.Helper()
	s, err := postgres.New(db, allocate.Options{
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
		dsn := dbtest.Postgres(t, postgres.Migrations())
		return openStore(t, dsn, sqldb.PoolerNone), openStore(t, dsn, sqldb.PoolerNone)
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

// retries returns how often a pool ran a transaction or statement again.
func retries(t *testing.T, reg *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "rowlock_retries_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			n += metric.GetCounter().GetValue()
		}
	}
	return n
}
