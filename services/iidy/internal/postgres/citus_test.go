package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt/attempttest"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// onCitus opens a store on distributed lists.
func onCitus(t *testing.T, dsn string, lockTimeout time.Duration) *rig {
	t.Helper()
	return rigOf(t, dsn, sqldb.Settings{Cluster: sqldb.ClusterCitus}, lockTimeout)
}

func TestStorePassesTheSuiteOnCitus(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.Citus(t, postgres.Migrations())
	db := dbtest.Dial(t, dsn)
	var one sync.Mutex // there is one cluster: its tests run one after the other
	attempttest.Exercise(t, func(t *testing.T) attempt.Repository {
		t.Helper()
		one.Lock()
		t.Cleanup(one.Unlock)
		execute(t, db, `TRUNCATE iidy.lists, iidy.slots`)
		return onCitus(t, dsn, 2*time.Second).Store
	})
}

// The statements for Citus are valid on one server too, so that CI runs them.
func TestStorePassesTheSuiteOnShardsOfOneServer(t *testing.T) {
	t.Parallel()
	attempttest.Exercise(t, func(t *testing.T) attempt.Repository {
		t.Helper()
		dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.CreateSlots)
		return onCitus(t, dsn, 2*time.Second).Store
	})
}
