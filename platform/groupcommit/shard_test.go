package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// distributed makes of one server what stands for a Citus cluster: key-0 to key-19 are on four shards, by their number.
const distributed = `
ALTER TABLE rig.slots DROP CONSTRAINT slots_pkey, ADD COLUMN place text NOT NULL, ADD PRIMARY KEY (place, id);
CREATE FUNCTION get_shard_id_for_distribution_column(regclass, text) RETURNS bigint
	LANGUAGE sql AS 'SELECT split_part($2, ''-'', 2)::bigint % 4';
CREATE VIEW pg_dist_placement AS SELECT n::bigint AS shardid, 1 AS groupid FROM generate_series(0, 3) AS n`

// shardedDatabase returns the address of a new database with distributed tables.
func shardedDatabase(t *testing.T) string {
	t.Helper()
	dsn := database(t)
	apptest.Execute(t, dbtest.Dial(t, dsn), distributed)
	return dsn
}

// A group is for one shard, and its slot is there. No more are under way on a server than there are permits, and while
// answers get lost every counter is exact.
func TestGroupsAreForOneShard(t *testing.T) {
	t.Parallel()
	const callers, adds, keys, permits = 32, 20, 20, 2
	dsn := shardedDatabase(t)
	proxy := faultproxy.New(t, dsn)
	var underWay, most atomic.Int64
	var mu sync.Mutex
	mixed := 0
	r := startOn(t, sqldb.ClusterCitus, dsn, proxy.DSN(dsn), func(c *config) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			defer underWay.Add(-1)
			now := underWay.Add(1)
			mu.Lock()
			most.Store(max(most.Load(), now))
			other := func(q request) bool { return shardOf(q.key) != shardOf(a.Place) }
			if slices.ContainsFunc(group, other) {
				mixed++
			}
			mu.Unlock()
			return add(ctx, s, a, group)
		}
	})
	proxy.CutEvery(9, faultproxy.AfterCommit, faultproxy.RST)

	acknowledged := make([]atomic.Int64, keys)
	waittest.Together(t, callers, func(c int) error {
		for i := range adds {
			n := (c + i) % keys
			err := r.do(t.Context(), fmt.Sprint("key-", n))
			if outcome, ours := sqldb.OutcomeOf(err); ours && outcome == sqldb.NotApplied {
				continue // lost three times
			}
			if err != nil {
				return err
			}
			acknowledged[n].Add(1)
		}
		return nil
	})

	for n := range acknowledged {
		r.wantValue(t, fmt.Sprint("key-", n), acknowledged[n].Load())
	}
	if mixed > 0 {
		t.Errorf("%d groups are for several shards", mixed)
	}
	if most.Load() > permits {
		t.Errorf("%d groups were under way at once, want %d", most.Load(), permits)
	}
	if proxy.Cuts() == 0 {
		t.Error("nothing was cut: the test proved nothing")
	}
	r.wantQueue(t, 0)
}

func shardOf(key string) (n int) {
	_, _ = fmt.Sscanf(key, "key-%d", &n)
	return n % 4
}

// Close waits for the groups of all shards, and then nothing is accepted.
func TestCloseShards(t *testing.T) {
	t.Parallel()
	dsn := shardedDatabase(t)
	r := startOn(t, sqldb.ClusterCitus, dsn, dsn)
	hold := apptest.Hold(t, r.direct, `SELECT FROM rig.counters WHERE key = 'key-3' FOR UPDATE`)
	locked := r.doAll(t.Context(), 1, request{key: "key-3"})
	apptest.WaitForBlocked(t, r.direct, 1)

	closed := make(chan error, 1)
	go func() { closed <- r.Close(t.Context()) }()
	waittest.Eventually(t, "new requests are refused", func() bool {
		_, err := r.Do(t.Context(), request{key: "key-1"})
		return errors.Is(err, groupcommit.ErrClosed)
	})
	hold.Rollback()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := <-locked; err != nil {
		t.Errorf("a request before Close: %v", err)
	}
}
