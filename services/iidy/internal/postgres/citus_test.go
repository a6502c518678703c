package postgres_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt/attempttest"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// The names of tests whose stores are for distributed lists have these.
const (
	onShards = "OnShards/" // on one server, where the statements for Citus are valid too: CI has no Citus
	onCitus  = "OnCitus/"
)

// database returns the URL of a new database.
func database(t *testing.T) (dsn string) {
	t.Helper()
	switch {
	case strings.Contains(t.Name(), onCitus):
		dsn, _ = apptest.Citus(t, postgres.Migrations())
	case strings.Contains(t.Name(), onShards):
		dsn, _ = apptest.OneServer(t, postgres.Migrations())
	default:
		dsn = dbtest.Postgres(t, postgres.Migrations())
	}
	return dsn
}

func clusterOf(t *testing.T) sqldb.Cluster {
	t.Helper()
	if strings.Contains(t.Name()+"/", onCitus) || strings.Contains(t.Name()+"/", onShards) {
		return sqldb.ClusterCitus
	}
	return sqldb.ClusterNone
}

// waitForBlockedOnWorkers waits until n sessions of Citus' workers wait for a lock.
func waitForBlockedOnWorkers(r *rig, n int) {
	r.Helper()
	waittest.Eventually(r.T, "sessions of the workers wait for a lock", func() bool {
		return onWorkers(r, `SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0`) >= n
	})
}

// onWorkers returns the sum of what a query returns on the workers.
func onWorkers(r *rig, query string) int {
	r.Helper()
	return apptest.One[int](r.T, r.db, `SELECT sum(result::int) FROM run_command_on_workers($1)`, query)
}

// What is promised on one server holds for distributed lists.
func TestOnShards(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"suite":             TestStorePassesTheSuite,
		"locked row":        TestLockedRowDelaysNoOther,
		"uncommitted add":   TestUncommittedAddDelaysNoOther,
		"locked in order":   TestRowsAreLockedInOrder,
		"inserted in order": TestNewItemsAreInsertedInOrder,
		"rows that move":    TestRowsThatMoveWhileTheirBatchWaits,
		"shapes":            TestBatchesOfEveryShapeMeet,
		"deadlock":          TestDeadlockOfALongBatch,
		"crowd":             TestCallsForALockedItemHoldAShare,
	} {
		t.Run(name, test)
	}
}

// A worker waits for locked rows as one server does: for as long as the replica's setting says.
func TestOnCitus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"locked row":          TestLockedRowDelaysNoOther,
		"uncommitted add":     TestUncommittedAddDelaysNoOther,
		"locked for too long": TestRowLockedForTooLong,
		"suite":               suiteOnCitus,
	} {
		t.Run(name, test)
	}
}

func TestStatementsGoToOneWorkerOnCitus(t *testing.T) {
	t.Parallel()
	apptest.GoToOneWorker(t, postgres.Migrations(), postgres.CitusStatements(list, claim))
}

// suiteOnCitus runs the tests of the suite one after the other, because they share a cluster.
func suiteOnCitus(t *testing.T) {
	t.Helper()
	t.Parallel()
	dsn := database(t)
	db := dbtest.Dial(t, dsn)
	var inTurn sync.Mutex
	attempttest.Exercise(t, func(t *testing.T) attempt.Repository {
		t.Helper()
		inTurn.Lock()
		t.Cleanup(inTurn.Unlock)
		execute(t, db, `TRUNCATE iidy.lists, iidy.slots`)
		return rigOn(t, dsn, sqldb.PoolerNone, 2*time.Second).Store
	})
}
