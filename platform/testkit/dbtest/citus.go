package dbtest

import (
	"context"
	"strconv"
	"testing"

	"github.com/rowlock/rowlock/platform/localcitus"
	"github.com/rowlock/rowlock/platform/localpg"
)

// citusShards is small, so that each shard has many of a test's rows.
const citusShards = "8"

// Citus starts a coordinator with two workers for this test only, like [Server], and returns the superuser's URL of the
// coordinator's database postgres. through maps a worker's URL to the port at which the coordinator reaches the worker;
// nil selects the worker's port. The test is skipped if the server lacks the extension.
func Citus(t testing.TB, through func(workerURL string) (port string)) string {
	t.Helper()
	var installed bool
	err := Dial(t, Empty(t)).Get(&installed, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citus')")
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	if !installed {
		t.Skip("the server's pg_available_extensions lists no citus")
	}

	o := localcitus.Options{
		Server: localpg.Options{Settings: private([]map[string]string{{
			"citus.shard_count":    citusShards,
			"max_worker_processes": "64", // one per database of a test
		}})},
		Workers: 2,
	}
	if through != nil {
		o.Through = func(worker *localcitus.Node) (int, error) { return strconv.Atoi(through(worker.URL)) }
	}

	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	cluster, err := localcitus.Start(ctx, o)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	stopAtEnd(t, cluster.Stop)

	// On workers the role's setting limits waits for locks.
	for _, node := range append(cluster.Workers(), cluster.Coordinator()) {
		if err := cluster.Execute(ctx, node, "ALTER ROLE "+localpg.Superuser+" SET lock_timeout = '5s'"); err != nil {
			t.Fatalf("dbtest: %v", err)
		}
	}
	return cluster.Coordinator().URL
}
