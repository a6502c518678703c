package apptest

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
)

// Citus returns the URL of a coordinator whose database has the distributed schema, and the proxies through which the
// coordinator reaches its two workers. The test is skipped if the server lacks the extension.
func Citus(t *testing.T, source migrate.Source) (dsn string, workers []*faultproxy.Proxy) {
	t.Helper()
	dsn = dbtest.Citus(t, func(worker string) string {
		proxy := faultproxy.New(t, worker)
		workers = append(workers, proxy)
		through, err := url.Parse(proxy.DSN(worker))
		if err != nil {
			t.Fatal("apptest: the proxy's URL cannot be read")
		}
		return through.Port()
	})

	source.Cluster = sqldb.ClusterCitus
	if err := migrate.Up(t.Context(), dsn, source, time.Minute, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatalf("apptest: %v", err)
	}
	return dsn, workers
}

// GoToOneWorker fails the test unless each statement, given with its arguments, goes to one worker of a cluster as a
// whole, with the locks in it.
func GoToOneWorker(t *testing.T, source migrate.Source, statements map[string][]any) {
	t.Helper()
	dsn, _ := Citus(t, source)
	db := dbtest.Dial(t, dsn)
	for statement, args := range statements {
		plan := Plan(t, db, `EXPLAIN `+statement, args...)
		if !strings.Contains(plan, "Task Count: 1") || strings.Contains(plan, "Distributed Subplan") {
			t.Errorf("%s\n%s", statement, plan)
		}
	}
}

// shardOfKey and placements replace the catalog of Citus with eight shards on two servers.
const (
	shardOfKey = `CREATE FUNCTION get_shard_id_for_distribution_column(regclass, text) RETURNS bigint
	LANGUAGE sql AS 'SELECT abs(hashtext($2) % 8)::bigint'`
	placements = `CREATE VIEW pg_dist_placement AS
	SELECT n::bigint AS shardid, n % 2 + 1 AS groupid FROM generate_series(0, 7) AS n`
)

// OneServer returns the URL of a plain server that plays all workers of [Citus], and the proxy in front of it.
// Statements for Citus are valid there too, so they can be tested without the extension. The given statements create
// what only a distributed schema has.
func OneServer(t *testing.T, source migrate.Source, statements ...string) (dsn string, server *faultproxy.Proxy) {
	t.Helper()
	direct := dbtest.Postgres(t, source)
	db := dbtest.Dial(t, direct)
	Execute(t, db, append(statements, shardOfKey, placements)...)
	if err := db.Close(); err != nil { // WatchDeadlocks waits for the end of other sessions
		t.Fatal(err)
	}

	server = faultproxy.New(t, direct)
	dsn = server.DSN(direct)
	return dsn, server
}
