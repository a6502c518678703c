package sqldb_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// The shard of a key is remembered until it is split: then the key is asked for again, and its shard has a server.
func TestShardsAreSplit(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	db := open(t, dsn)
	execute(t, db, `CREATE TABLE keys (key text PRIMARY KEY, shard bigint)`)
	execute(t, db, `INSERT INTO keys VALUES ('a', 1), ('b', 2)`)
	execute(t, db, `CREATE FUNCTION get_shard_id_for_distribution_column(regclass, text) RETURNS bigint
		LANGUAGE sql AS 'SELECT shard FROM keys WHERE key = $2'`)
	execute(t, db, `CREATE TABLE pg_dist_placement (shardid bigint PRIMARY KEY, groupid integer)`)
	execute(t, db, `INSERT INTO pg_dist_placement VALUES (1, 7), (2, 8)`)
	s := sqldb.NewShards(db, "keys", 10)
	want := func(key string, shard sqldb.Shard) {
		t.Helper()
		if got, err := s.Of(t.Context(), []string{key}); err != nil || got[0] != shard {
			t.Errorf("%s is on %+v, %v; want %+v", key, got, err, shard)
		}
	}
	want("a", sqldb.Shard{ID: 1, Server: 7})
	execute(t, db, `UPDATE keys SET shard = shard + 10`)
	want("a", sqldb.Shard{ID: 1, Server: 7}) // which costs no question
	execute(t, db, `UPDATE pg_dist_placement SET shardid = shardid + 10`)
	want("b", sqldb.Shard{ID: 12, Server: 8}) // a shard that is not known
	want("a", sqldb.Shard{ID: 1})             // is not there any more
	want("a", sqldb.Shard{ID: 11, Server: 7})
}
