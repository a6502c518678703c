package mysql_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

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

// deaf is an observer that nobody asks.
type deaf struct{}

func (deaf) StatusLockWaited(time.Duration) {}

const lockTimeout, statementTimeout = 2 * time.Second, 4 * time.Second

func openPool(t *testing.T, dsn string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: dsn, Engines: []sqldb.Engine{sqldb.MySQL}, MaxOpenConns: 8, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
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

// openStore opens one replica's store on a database.
func openStore(t *testing.T, dsn string) *mysql.Store {
	t.Helper()
	s, err := mysql.New(openPool(t, dsn),
		allocate.Options{LockTimeout: lockTimeout, StatementTimeout: statementTimeout}, deaf{}, prometheus.NewRegistry())
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

// counting is an observer that counts.
type counting struct{ n atomic.Int64 }

func (c *counting) StatusLockWaited(time.Duration) { c.n.Add(1) }
