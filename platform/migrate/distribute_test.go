package migrate_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// distributed returns src for Citus, with its table distributed.
func distributed(src migrate.Source) migrate.Source {
	src.Cluster = sqldb.ClusterCitus
	src.Distribution = []string{`SELECT create_distributed_table('shop.item', 'id')`}
	return src
}

// Replicas that start together distribute the tables once, later migrations reach the distributed ones, and further
// steps are run by the release that brings them.
func TestTablesAreDistributedOnce(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Citus(t, nil)
	db := dbtest.Dial(t, dsn)
	if err := migrate.Verify(t.Context(), dsn, distributed(source()), quiet()); !errors.Is(err, migrate.ErrPending) {
		t.Errorf("before the first migration: %v", err)
	}
	waittest.Together(t, 3, func(int) error {
		return migrate.Up(t.Context(), dsn, distributed(source()), patience, quiet())
	})
	wantComplete(t, db)
	next := distributed(with("00004_later.sql", "-- +goose Up\nALTER TABLE shop.item ADD COLUMN later int;\n"+
		"CREATE TABLE shop.side (id text PRIMARY KEY);\n"))
	next.Distribution = append(next.Distribution, `SELECT create_distributed_table('shop.side', 'id')`)
	if err := migrate.Verify(t.Context(), dsn, next, quiet()); !errors.Is(err, migrate.ErrPending) {
		t.Errorf("before the later migration: %v", err)
	}
	up(t, dsn, next)
	up(t, dsn, distributed(source())) // of the release before: it changes nothing
	var tables, columns int
	scan(t, db, `SELECT count(*) FROM pg_dist_partition WHERE logicalrelid::text LIKE 'shop.%'`, &tables)
	scan(t, db, `SELECT count(DISTINCT result) FROM run_command_on_shards('shop.item',
		$$ SELECT count(later) FROM %s $$) WHERE success`, &columns)
	if tables != 3 || columns == 0 {
		t.Errorf("%d tables of Citus, want the history and two; the later column on a shard: %t", tables, columns > 0)
	}
	if err := migrate.Verify(t.Context(), dsn, next, quiet()); err != nil {
		t.Error(err)
	}
	plain := source()
	if err := migrate.Up(t.Context(), dsn, plain, patience, quiet()); !errors.Is(err, migrate.ErrCluster) {
		t.Errorf("a program that takes it for one server: %v", err)
	}
	unmark, err := db.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = unmark.ExecContext(t.Context(), `COMMENT ON TABLE shop.goose_db_version IS NULL`)
		err = errors.Join(err, unmark.Commit())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate.Up(t.Context(), dsn, plain, patience, quiet()); !errors.Is(err, migrate.ErrCluster) {
		t.Errorf("tables that were distributed by hand: %v", err)
	}
	plain.Schema = "local" // a schema of the coordinator's own
	plain.FS = fstest.MapFS{"migrations/00001_first.sql": {Data: []byte(
		"-- rowlock: compatible\n-- +goose Up\nCREATE TABLE local.item (id int);\n")}}
	up(t, dsn, plain)
}

func TestCitusIsNoPlainServer(t *testing.T) {
	t.Parallel()
	err := migrate.Up(t.Context(), dbtest.Empty(t), distributed(source()), patience, quiet())
	if !errors.Is(err, migrate.ErrCluster) {
		t.Errorf("a server without the extension: %v", err)
	}
}
