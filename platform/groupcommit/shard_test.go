package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lib/pq"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
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

// startShards starts a replica for distributed counters.
func startShards(
	t *testing.T, dsn, through string, changes ...func(*groupcommit.Config[string, request, int64]),
) *rig {
	t.Helper()
	r := &rig{
		direct: dbtest.Dial(t, dsn), registry: prometheus.NewRegistry(),
		seen: apptest.NewContention(t, contention.Settings{Lock: "counter", Grouped: true}),
	}
	db := apptest.Pool(t, sqldb.Settings{
		URL: through, Cluster: sqldb.ClusterCitus, MaxOpenConns: 8,
		LockTimeout: lockTimeout, StatementTimeout: statementTimeout, ApplicationName: "rig", Contention: r.seen.Metrics,
	}, r.registry)
	r.slots = groupcommit.NewSlots(db, "rig", statementTimeout, groupcommit.Beside("rig.counters"))
	cfg := groupcommit.Config[string, request, int64]{
		Limits: groupcommit.Limits{
			DB: db, Slots: r.slots, Permits: 2, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
			Contention: r.seen.Metrics, Registry: r.registry,
		},
		Name: "rig_add", Key: request.of, Place: request.of, Send: add, Transaction: true,
	}
	for _, change := range changes {
		change(&cfg)
	}

	var err error
	if r.Committer, err = groupcommit.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

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
	r := startShards(t, dsn, proxy.DSN(dsn), func(c *groupcommit.Config[string, request, int64]) {
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
			_, err := r.Do(t.Context(), request{key: fmt.Sprint("key-", n)})
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
		key := fmt.Sprint("key-", n)
		if got := r.value(t, key); got != acknowledged[n].Load() {
			t.Errorf("%s is %d, %d were acknowledged", key, got, acknowledged[n].Load())
		}
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
	if queue := r.metric(t, "rowlock_coalesce_queue_length"); queue != 0 {
		t.Errorf("%g requests are waiting in the end", queue)
	}
}

func shardOf(key string) (n int) {
	_, _ = fmt.Sscanf(key, "key-%d", &n)
	return n % 4
}

// A locked row delays the callers of its own key, and no other shard.
func TestLockedRowOfOneShard(t *testing.T) {
	t.Parallel()
	dsn := shardedDatabase(t)
	r := startShards(t, dsn, dsn)
	hold := apptest.Hold(t, r.direct, `SELECT FROM rig.counters WHERE key = 'key-0' FOR UPDATE`)
	locked := r.doAll(t, 3, request{key: "key-0"})
	waittest.Eventually(t, "the lane is known", func() bool { return r.metric(t, "rowlock_coalesce_slow_keys") == 1 })
	for _, key := range []string{"key-1", "key-2", "key-3", "key-4"} {
		if _, err := r.Do(t.Context(), request{key: key}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	hold.Rollback()
	for range 3 {
		if err := <-locked; err != nil {
			t.Error(err)
		}
	}
	if n := r.metric(t, "rowlock_coalesce_slow_keys"); n != 0 {
		t.Errorf("%g lanes are left", n)
	}
}

// Old slots are deleted shard by shard, those in use are not.
func TestOldSlotsOfShardsAreDeleted(t *testing.T) {
	t.Parallel()
	dsn := shardedDatabase(t)
	r := startShards(t, dsn, dsn)
	for _, key := range []string{"key-0", "key-1"} {
		if _, err := r.Do(t.Context(), request{key: key}); err != nil {
			t.Fatal(err)
		}
	}
	apptest.Execute(t, r.direct, `INSERT INTO rig.slots (place, id, attempt, used_at)
		SELECT 'key-' || n, gen_random_uuid(), 7, now() - interval '1 hour' FROM generate_series(1, 1200) AS n`)
	if err := r.slots.CleanAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := r.direct.GetContext(t.Context(), &left, `SELECT count(*) FROM rig.slots`); err != nil || left != 2 {
		t.Errorf("%d slots are left, %v", left, err)
	}
}

// Close waits for the groups of all shards, and then nothing is accepted.
func TestCloseShards(t *testing.T) {
	t.Parallel()
	dsn := shardedDatabase(t)
	r := startShards(t, dsn, dsn)
	hold := apptest.Hold(t, r.direct, `SELECT FROM rig.counters WHERE key = 'key-3' FOR UPDATE`)
	locked := r.doAll(t, 1, request{key: "key-3"})
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

// Statements that may be repeated are grouped too, and use no slot.
func TestRepeatableGroups(t *testing.T) {
	t.Parallel()
	dsn := shardedDatabase(t)
	r := startShards(t, dsn, dsn, func(c *groupcommit.Config[string, request, int64]) {
		c.Send = nil
		c.Repeat = func(
			ctx context.Context, s groupcommit.Session, _ *groupcommit.Attempt, group []request,
		) (values []*int64, err error) {
			keys := make([]string, len(group))
			for i, q := range group {
				keys[i] = q.key
			}
			const query = `SELECT n FROM unnest($1::text[]) WITH ORDINALITY AS k (key, i) JOIN rig.counters USING (key)
				ORDER BY i`
			err = s.SelectContext(ctx, &values, query, pq.Array(keys))
			return values, err
		}
	})
	apptest.Execute(t, r.direct, `UPDATE rig.counters SET n = split_part(key, '-', 2)::bigint WHERE key LIKE 'key-%'`)
	waittest.Together(t, 10, func(i int) error {
		n, err := r.Do(t.Context(), request{key: fmt.Sprint("key-", i)})
		if err == nil && n != int64(i) {
			err = fmt.Errorf("key-%d is %d", i, n)
		}
		return err
	})

	var slots int
	if err := r.direct.GetContext(t.Context(), &slots, `SELECT count(*) FROM rig.slots`); err != nil || slots != 0 {
		t.Errorf("%d slots were made, %v", slots, err)
	}
}
