package apptest

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Citus returns the URL of a coordinator whose database has the distributed schema, and the proxies through which it
// reaches its two workers. A test on a server without the extension is skipped.
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

// shardOfKey and placements stand in the place of Citus' own, with eight shards on two servers.
const (
	shardOfKey = `CREATE FUNCTION get_shard_id_for_distribution_column(regclass, text) RETURNS bigint
	LANGUAGE sql AS 'SELECT abs(hashtext($2) % 8)::bigint'`
	placements = `CREATE VIEW pg_dist_placement AS
	SELECT n::bigint AS shardid, n % 2 + 1 AS groupid FROM generate_series(0, 7) AS n`
)

// StandIns returns the statements that make a plain server answer what Citus is asked for.
func StandIns() []string { return []string{shardOfKey, placements} }

// OneServer returns the URL of a plain server that stands for all workers of [Citus], and the proxy before it: what is
// sent to Citus is valid there too, so that it can be tested where the extension is not installed. The statements make
// what only a distributed schema has.
func OneServer(t *testing.T, source migrate.Source, statements ...string) (dsn string, server *faultproxy.Proxy) {
	t.Helper()
	direct := dbtest.Postgres(t, source)
	db := dbtest.Dial(t, direct)
	Execute(t, db, append(statements, StandIns()...)...)
	if err := db.Close(); err != nil { // WatchDeadlocks waits for the end of other sessions
		t.Fatal(err)
	}
	server = faultproxy.New(t, direct)
	dsn = server.DSN(direct)
	return dsn, server
}

// CitusCluster is a cluster on which tests have a database each.
type CitusCluster struct {
	coordinator string     // the URL of its database postgres
	making      sync.Mutex // a database, of which the nodes make one at a time
}

// NewCitusCluster starts a cluster as [Citus] does, without a schema and proxies.
func NewCitusCluster(t *testing.T) *CitusCluster {
	t.Helper()
	return &CitusCluster{coordinator: dbtest.Citus(t, nil)}
}

// Database makes a database on all nodes and returns its URL. It has the distributed schema.
func (c *CitusCluster) Database(t *testing.T, source migrate.Source) string {
	t.Helper()
	c.making.Lock()
	defer c.making.Unlock()
	u, err := url.Parse(c.coordinator)
	if err != nil {
		t.Fatal("apptest: the coordinator's URL cannot be read")
	}
	password, _ := u.User.Password()
	var nodes []string
	first := dbtest.Dial(t, c.coordinator)
	err = first.Select(&nodes, "SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid > 0")
	if err != nil {
		t.Fatalf("apptest: %v", err)
	}
	name := "t" + strings.ToLower(rand.Text())
	join := []string{"SELECT citus_set_coordinator_host('127.0.0.1', " + u.Port() + ")"}
	for _, node := range nodes {
		_, port, _ := strings.Cut(node, ":")
		join = append(join, "SELECT citus_add_node('127.0.0.1', "+port+")")
	}
	for _, node := range append(nodes, u.Host) {
		u.Host = node
		u.Path = "/postgres"
		conn, err := dbtest.Dial(t, u.String()).Conn(t.Context())
		if err == nil {
			_, err = conn.ExecContext(t.Context(), "CREATE DATABASE "+name) // which takes no transaction
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			t.Fatalf("apptest: %v", err)
		}
		u.Path = "/" + name
		Execute(t, dbtest.Dial(t, u.String()), "CREATE EXTENSION citus",
			"INSERT INTO pg_dist_authinfo VALUES (0, '"+u.User.Username()+"', 'password="+password+"')")
	}
	dsn := u.String() // the coordinator's was the last
	Execute(t, dbtest.Dial(t, dsn), join...)
	source.Cluster = sqldb.ClusterCitus
	if err := migrate.Up(t.Context(), dsn, source, time.Minute, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatalf("apptest: %v", err)
	}
	return dsn
}
