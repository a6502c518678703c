package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot/pottest"
)

func TestMain(m *testing.M) {
	status := dbtest.Main(m)
	if err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// replica is one replica's store.
type replica struct {
	*Store

	seen *apptest.Contention
}

func openStore(t *testing.T, dsn string, pooler sqldb.Pooler, change ...func(*Options)) replica {
	t.Helper()
	seen := apptest.NewContention(t, contention.Settings{
		Lock: "pot", Queued: true, Reasons: []contention.Reason{contention.Held, contention.Lost, contention.TakenOver},
	})
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: dsn, Pooler: pooler, MaxOpenConns: 8, LockTimeout: 5 * time.Second, StatementTimeout: 15 * time.Second, ApplicationName: "pyggpot",
		Contention: seen.Metrics,
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	o := Options{TTL: 10 * time.Second, Retries: 2000, RetryWait: 5 * time.Millisecond, QueueWait: 20 * time.Second, Changes: 6}
	for _, c := range change {
		c(&o)
	}
	o.Contention = seen.Metrics
	return replica{New(db, o), seen}
}

func open(t *testing.T, change ...func(*Options)) (replica, *sqlx.DB, string) {
	t.Helper()
	dsn := dbtest.Postgres(t, Migrations())
	return openStore(t, dsn, sqldb.PoolerNone, change...), apptest.Open(t, dsn), dsn
}

func mustCreate(t *testing.T, r pot.Repository, maxCoins int32) pot.ID {
	t.Helper()
	p, err := r.Create(t.Context(), "pot", maxCoins)
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

func addGold(n int64) func(pot.Pot) (pot.Contents, error) {
	return func(p pot.Pot) (pot.Contents, error) { return p.Contents.Plus(pot.Contents{pot.Gold: n}), nil }
}

// wantBooks demands so many coins, that each pot's sum is that of its kinds, and no lease.
func wantBooks(t *testing.T, db *sqlx.DB, coins int64) {
	t.Helper()
	var got struct {
		Coins  int64 `db:"coins"`
		Wrong  int64 `db:"wrong"`
		Leased int64 `db:"leased"`
	}
	if err := db.GetContext(t.Context(), &got, `SELECT coalesce(sum(coins), 0) AS coins, count(*) FILTER (WHERE lock IS NOT NULL) AS leased,
		count(*) FILTER (WHERE coins <> (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin WHERE pot_id = pot.id)) AS wrong
		FROM pyggpot.pot`); err != nil {
		t.Fatal(err)
	}
	if got.Coins != coins || got.Wrong != 0 || got.Leased != 0 {
		t.Errorf("%d coins, %d wrong sums, %d leases; want %d coins", got.Coins, got.Wrong, got.Leased, coins)
	}
}

func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	pottest.Exercise(t, func(t *testing.T) pot.Repository {
		t.Helper()
		r, db, _ := open(t)
		t.Cleanup(func() {
			var wrong int
			err := db.GetContext(context.WithoutCancel(t.Context()), &wrong, `SELECT count(*) FROM pyggpot.pot
				WHERE lock IS NOT NULL OR coins <> (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin WHERE pot_id = pot.id)`)
			if err != nil || wrong != 0 {
				t.Errorf("%d pots are leased or have a wrong sum (%v)", wrong, err)
			}
		})
		return r
	})
}

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	pottest.Exercise(t, func(t *testing.T) pot.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, Migrations())
		return openStore(t, dbtest.PgBouncer(t, dsn, 8), sqldb.PoolerTransaction)
	})
}

// replicas hands each change to the next of several stores on one database.
type replicas struct {
	replica

	all  []replica
	next atomic.Int64
}

func (r *replicas) Change(ctx context.Context, id pot.ID, change func(pot.Pot) (pot.Contents, error)) error {
	return r.all[int(r.next.Add(1))%len(r.all)].Change(ctx, id, change)
}

// The same suite with the contenders on three replicas: nothing in the process
// helps, the lease decides.
func TestThreeReplicasPassTheSuite(t *testing.T) {
	t.Parallel()
	pottest.Exercise(t, func(t *testing.T) pot.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, Migrations())
		r := &replicas{}
		for range 3 {
			r.all = append(r.all, openStore(t, dsn, sqldb.PoolerNone))
		}
		r.replica = r.all[0]
		return r
	})
}

// What the schema itself refuses, whoever writes.
func TestConstraints(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 10)
	if err := r.Change(t.Context(), id, addGold(10)); err != nil {
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
		if _, err := conn.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), `"`+constraint+`"`) {
			t.Errorf("%s: %v, want a violation of %s", statement, err, constraint)
		}
		_ = conn.Close()
	}
	var columns []string
	err := db.SelectContext(t.Context(), &columns, `SELECT a.attname FROM pg_index i
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
		WHERE i.indexrelid = 'pyggpot.pot_lock'::regclass ORDER BY array_position(i.indkey::int[], a.attnum::int)`)
	if err != nil || strings.Join(columns, ", ") != "id, lock" {
		t.Errorf("pot_lock is on %v (%v)", columns, err)
	}
	// A change that lies about the sum is refused by the database, not stored.
	if err := r.Change(t.Context(), id, addGold(1)); err == nil {
		t.Error("a pot holds more than fits")
	}
	wantBooks(t, db, 10)
}

// A kind that stays as it is keeps its row.
func TestOnlyChangedKindsAreWritten(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 100)
	if err := r.Change(t.Context(), id, func(pot.Pot) (pot.Contents, error) {
		return pot.Contents{pot.Bronze: 10, pot.Silver: 10, pot.Gold: 10}, nil
	}); err != nil {
		t.Fatal(err)
	}
	versions := func() map[int]string {
		all := map[int]string{}
		var rows []struct {
			Kind    int    `db:"denomination"`
			Version string `db:"version"`
		}
		if err := db.SelectContext(t.Context(), &rows, `SELECT denomination, xmin::text || ctid::text AS version FROM pyggpot.coin`); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			all[r.Kind] = r.Version
		}
		return all
	}
	before := versions()
	if err := r.Change(t.Context(), id, func(p pot.Pot) (pot.Contents, error) {
		return p.Contents.Less(pot.Contents{pot.Silver: 10}), nil
	}); err != nil {
		t.Fatal(err)
	}
	after := versions()
	if after[1] != before[1] || after[100] != before[100] || after[10] == before[10] {
		t.Errorf("the rows were %v and are %v", before, after)
	}
	if err := r.Change(t.Context(), id, func(p pot.Pot) (pot.Contents, error) { return p.Contents, nil }); err != nil {
		t.Fatal(err)
	}
	if now := versions(); len(now) != 3 || now[10] != after[10] {
		t.Errorf("a change of nothing wrote %v, it was %v", now, after)
	}
	wantBooks(t, db, 20)
}

// Reads wait for nobody, not even for somebody who holds every row.
func TestReadsNeverWait(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 100)
	if err := r.Change(t.Context(), id, addGold(5)); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `UPDATE pyggpot.pot
		SET coins = 6, lock = gen_random_uuid(), lock_expire_time = 'infinity'`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `UPDATE pyggpot.coin SET coin_count = 6`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	byID, err := r.Find(ctx, id)
	byName, nameErr := r.FindByName(ctx, "pot")
	list, _, listErr := r.List(ctx, 10, 0)
	if err != nil || nameErr != nil || listErr != nil || byID.Contents[pot.Gold] != 5 || byName.Contents[pot.Gold] != 5 || len(list) != 1 {
		t.Errorf("%v %v %v (%v, %v, %v)", byID, byName, list, err, nameErr, listErr)
	}
}

// No change deadlocks with another, over all pots of three replicas.
func TestNoDeadlocks(t *testing.T) {
	t.Parallel()
	_, db, dsn := open(t)
	var name string
	if err := db.GetContext(t.Context(), &name, `SELECT current_database()`); err != nil {
		t.Fatal(err)
	}
	apptest.Execute(t, db, `ALTER DATABASE "`+name+`" SET deadlock_timeout = '5ms'`)
	stores := []replica{openStore(t, dsn, sqldb.PoolerNone), openStore(t, dsn, sqldb.PoolerNone), openStore(t, dsn, sqldb.PoolerNone)}
	var ids []pot.ID
	for i := range 4 {
		p, err := stores[0].Create(t.Context(), fmt.Sprintf("pot-%d", i), 100000)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID)
	}
	var done sync.WaitGroup
	for i := range 24 {
		done.Go(func() {
			for j := range 8 {
				if err := stores[i%3].Change(t.Context(), ids[(i+j)%len(ids)], func(p pot.Pot) (pot.Contents, error) {
					return p.Contents.Plus(pot.Contents{pot.Gold: 1, pot.Bronze: 1}), nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	wantBooks(t, db, 24*8*2)
	var deadlocks int
	err := db.GetContext(t.Context(), &deadlocks, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	if err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks (%v)", deadlocks, err)
	}
}
