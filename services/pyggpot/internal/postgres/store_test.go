package postgres

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot/pottest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.MainWithoutLeaks(m)) }

// replica is one replica's store.
type replica struct {
	*Store

	seen *apptest.Contention
}

func openStore(t *testing.T, dsn string, pooler sqldb.Pooler, change ...func(*groupcommit.Limits, *Options)) replica {
	t.Helper()
	seen := apptest.NewContention(t, contention.Settings{
		Lock: "pot", Grouped: true, Reasons: []contention.Reason{contention.Held, contention.Lost, contention.TakenOver},
	})
	db := apptest.Pool(t, sqldb.Settings{
		URL: dsn, Pooler: pooler, MaxOpenConns: 8, LockTimeout: 30 * time.Second, StatementTimeout: time.Minute,
		ApplicationName: "pyggpot", Contention: seen.Metrics, Session: sqldb.PlannedOnce(),
	}, prometheus.NewRegistry())
	limits := groupcommit.Limits{
		DB: db, Slots: groupcommit.NewSlots(db, "pyggpot", time.Minute), Queue: 10_000,
		LockTimeout: 30 * time.Second, StatementTimeout: time.Minute, Contention: seen.Metrics,
	}
	o := Options{TTL: 10 * time.Second, Retries: 1_000_000, RetryWait: 5 * time.Millisecond}
	for _, c := range change {
		c(&limits, &o)
	}
	s := New(limits, o)
	apptest.CloseAtEnd(t, s.Close)
	return replica{s, seen}
}

func open(t *testing.T, change ...func(*groupcommit.Limits, *Options)) (replica, *sqlx.DB, string) {
	t.Helper()
	dsn := dbtest.Postgres(t, Migrations())
	return openStore(t, dsn, sqldb.PoolerNone, change...), dbtest.Dial(t, dsn), dsn
}

func mustCreate(t *testing.T, r pot.Repository, name string, maxCoins int32) pot.ID {
	t.Helper()
	p, err := r.Create(t.Context(), name, maxCoins)
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

func gold(id pot.ID, n int64) pot.Change { return pot.Change{Pot: id, Add: pot.Contents{pot.Gold: n}} }

// add adds gold to a pot.
func (r replica) add(t *testing.T, id pot.ID, n int64) error {
	t.Helper()
	_, err := r.Change(context.WithoutCancel(t.Context()), gold(id, n))
	return err
}

// wantTotal tests the number of all coins, that each pot has the sum of its kinds, and that none is leased.
func wantTotal(t *testing.T, db *sqlx.DB, coins int64) {
	t.Helper()
	got := apptest.One[struct{ Coins, Wrong, Leased int64 }](t, db, `SELECT coalesce(sum(coins), 0) AS coins,
		count(*) FILTER (WHERE lock IS NOT NULL) AS leased,
		count(*) FILTER (WHERE coins <>
		  (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin WHERE pot_id = pot.id)) AS wrong
		FROM pyggpot.pot`)
	if got.Coins != coins || got.Wrong != 0 || got.Leased != 0 {
		t.Errorf("%d coins, %d wrong sums, %d leases; want %d coins", got.Coins, got.Wrong, got.Leased, coins)
	}
}

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	pottest.Exercise(t, func(t *testing.T) pot.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, Migrations())
		return openStore(t, dbtest.PgBouncer(t, dsn, 8), sqldb.PoolerTransaction)
	})
}

// replicas passes each change to the next of several stores on one database.
type replicas struct {
	replica

	all  []replica
	next atomic.Int64
}

func (r *replicas) Change(ctx context.Context, c pot.Change) (pot.Contents, error) {
	return r.all[int(r.next.Add(1))%len(r.all)].Change(ctx, c)
}

// TestThreeReplicasPassTheSuite runs the suite with the callers spread over three replicas, of which only the lease
// keeps order. No change deadlocks with another; each pot has the sum of its kinds and no lease in the end.
func TestThreeReplicasPassTheSuite(t *testing.T) {
	t.Parallel()
	pottest.Exercise(t, func(t *testing.T) pot.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, Migrations())
		apptest.WatchDeadlocks(t, dsn)
		r := &replicas{all: []replica{
			openStore(t, dsn, sqldb.PoolerNone), openStore(t, dsn, sqldb.PoolerNone), openStore(t, dsn, sqldb.PoolerNone),
		}}
		r.replica = r.all[0]
		db := dbtest.Dial(t, dsn)
		t.Cleanup(func() {
			var wrong int
			err := db.GetContext(context.WithoutCancel(t.Context()), &wrong, `SELECT count(*) FROM pyggpot.pot
				 WHERE lock IS NOT NULL OR coins <> (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin WHERE pot_id = pot.id)`)
			if err != nil || wrong != 0 {
				t.Errorf("%d leases and wrong sums (%v)", wrong, err)
			}
		})
		return r
	})
}

// TestListPassesOverNoPotsBehindTheLast: a page that begins behind the total costs the total and no further scan.
func TestListPassesOverNoPotsBehindTheLast(t *testing.T) {
	t.Parallel()
	_, db, _ := open(t)
	apptest.Execute(t, db, `INSERT INTO pyggpot.pot (pot_name, max_coins) SELECT 'pot-' || n, 6
		FROM generate_series(1, 200) AS n`)
	for _, tt := range []struct {
		limit, offset int64
		scans         int // of pots: the count's, and the page's unless it is skipped
	}{{25, 199, 2}, {25, 200, 1}, {100, (1<<31 - 2) * 100, 1}, {0, 0, 1}} {
		plan := apptest.Plan(t, db, `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) `+listSQL, tt.limit, tt.offset)
		scans := 0
		for line := range strings.Lines(plan) {
			ofPots := strings.Contains(line, "Scan") && strings.Contains(line, " on pot ")
			if ofPots && !strings.Contains(line, "never executed") {
				scans++
			}
		}
		if scans != tt.scans {
			t.Errorf("%+v: %d scans\n%s", tt, scans, plan)
		}
	}
}

// TestConstraints: the schema refuses these changes of any client.
func TestConstraints(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, "pot", 10)
	if err := r.add(t, id, 10); err != nil {
		t.Fatal(err)
	}
	for statement, constraint := range map[string]string{
		`UPDATE pyggpot.pot SET coins = 11`:                                                      "pot_coins_fit",
		`UPDATE pyggpot.pot SET coins = -1`:                                                      "pot_coins_fit",
		`UPDATE pyggpot.pot SET max_coins = 9`:                                                   "pot_coins_fit",
		`UPDATE pyggpot.pot SET lock = gen_random_uuid()`:                                        "pot_lock_expires",
		`UPDATE pyggpot.coin SET coin_count = -1`:                                                "coin_coin_count_check",
		`UPDATE pyggpot.coin SET denomination = 5`:                                               "coin_denomination_check",
		`INSERT INTO pyggpot.coin (pot_id, denomination, coin_count) SELECT 1, 100, 1`:           "coin_of_pot",
		`INSERT INTO pyggpot.coin (pot_id, denomination, coin_count) SELECT 99, 100, 1`:          "coin_pot_id_fkey",
		`INSERT INTO pyggpot.pot (pot_name, max_coins) SELECT pot_name, 6 FROM pyggpot.pot`:      "pot_pot_name_key",
		`INSERT INTO pyggpot.pot (pot_name, max_coins) SELECT pot_name || 2, 5 FROM pyggpot.pot`: "pot_max_coins_check",
	} {
		conn, err := db.Connx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.ExecContext(t.Context(), statement)
		if err == nil || !strings.Contains(err.Error(), `"`+constraint+`"`) {
			t.Errorf("%s: %v, want a violation of %s", statement, err, constraint)
		}
		_ = conn.Close()
	}
	wantTotal(t, db, 10)
}

// TestOnlyChangedKindsAreWritten: a kind whose count does not change keeps its row.
func TestOnlyChangedKindsAreWritten(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, "pot", 100)
	var last []string // the versions of the rows of bronze, silver and gold
	for i, step := range []struct {
		change  pot.Change
		changed [3]bool
	}{
		{pot.Change{Add: pot.Contents{pot.Bronze: 10, pot.Silver: 10, pot.Gold: 10}}, [3]bool{true, true, true}},
		{pot.Change{Take: pot.Contents{pot.Silver: 10}}, [3]bool{false, true, false}},
		{pot.Change{Take: pot.Contents{pot.Silver: 10}}, [3]bool{}},
	} {
		step.change.Pot = id
		if _, err := r.Change(t.Context(), step.change); err != nil {
			t.Fatal(err)
		}
		var now []string
		err := db.SelectContext(t.Context(), &now, `SELECT xmin::text || ctid::text FROM pyggpot.coin ORDER BY denomination`)
		if err != nil || len(now) != len(step.changed) {
			t.Fatal(now, err)
		}
		for k, changed := range step.changed {
			if i > 0 && changed != (now[k] != last[k]) {
				t.Errorf("change %d: the rows were %v and are %v", i, last, now)
			}
		}
		last = now
	}
	wantTotal(t, db, 20)
}

// TestNoIndexHasWhatAChangeWrites: a change writes its rows as HOT updates, which no index of a changed column allows.
func TestNoIndexHasWhatAChangeWrites(t *testing.T) {
	t.Parallel()
	_, db, _ := open(t)
	var indexed []string
	if err := db.SelectContext(t.Context(), &indexed, `SELECT i.indexrelid::regclass::text || ' ' || a.attname
		FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
		WHERE i.indrelid IN ('pyggpot.pot'::regclass, 'pyggpot.coin'::regclass)
		  AND a.attname IN ('lock', 'lock_expire_time', 'coins', 'coin_count')`); err != nil || len(indexed) > 0 {
		t.Errorf("indexed: %v (%v)", indexed, err)
	}
}
