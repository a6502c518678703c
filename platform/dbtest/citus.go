package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"testing"

	"github.com/rowlock/rowlock/platform/localpg"
)

// citusShards is few, so that each has many rows of a test.
const citusShards = "8"

// Citus starts a coordinator with two workers for one test alone, as [Server] does, and returns the superuser's URL of
// the coordinator's database postgres. It reaches each worker at the port that through returns of the worker's URL; nil
// stands for the worker's own. A test on a server without the extension is skipped.
func Citus(t testing.TB, through func(workerURL string) (port string)) string {
	t.Helper()
	skipWithoutCitus(t)
	password := rand.Text()
	urls := make([]*url.URL, 3)
	for i := range urls {
		server := Server(t, map[string]string{
			"shared_preload_libraries": "citus", "wal_level": "logical", "max_prepared_transactions": "200",
			"citus.node_conninfo": "sslmode=disable", "citus.shard_count": citusShards,
			"max_worker_processes": "64", // one for each database of apptest.CitusDatabase
		})
		u, err := url.Parse(server.URL("postgres"))
		if err != nil {
			t.Fatal("dbtest: the server's URL cannot be read")
		}
		// The nodes log in to each other with one password, and wait for locks as the role says.
		onNode(t, u, "ALTER ROLE "+localpg.Superuser+" PASSWORD '"+password+"'",
			"ALTER ROLE "+localpg.Superuser+" SET lock_timeout = '5s'", "CREATE EXTENSION citus",
			"INSERT INTO pg_dist_authinfo VALUES (0, '"+localpg.Superuser+"', 'password="+password+"')")
		u.User = url.UserPassword(localpg.Superuser, password)
		urls[i] = u
	}
	onNode(t, urls[0], "SELECT citus_set_coordinator_host('127.0.0.1', "+urls[0].Port()+")")
	for _, u := range urls[1:] {
		port := u.Port()
		if through != nil {
			port = through(u.String())
		}
		onNode(t, urls[0], "SELECT citus_add_node('127.0.0.1', "+port+")")
	}
	return urls[0].String()
}

// skipWithoutCitus skips a test where the extension is not installed.
func skipWithoutCitus(t testing.TB) {
	t.Helper()
	var installed bool
	err := Dial(t, Empty(t)).Get(&installed, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citus')")
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	if !installed {
		t.Skip("the server's pg_available_extensions lists no citus")
	}
}

func onNode(t testing.TB, node *url.URL, statements ...string) {
	t.Helper()
	err := onAdmin(t.Context(), node.String(), func(conn *sql.Conn) error {
		for _, statement := range statements {
			if err := run(context.WithoutCancel(t.Context()), conn, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}
