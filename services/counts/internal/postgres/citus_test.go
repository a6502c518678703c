package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// openDistributed opens a store on Citus.
func openDistributed(t *testing.T, dsn string) *postgres.Store {
	t.Helper()
	const lockTimeout = 20 * time.Second
	seen := apptest.NewContention(t, contention.Settings{Lock: "item", Queued: true, Grouped: true})
	db := apptest.Pool(t, sqldb.Settings{
		URL: dsn, MaxOpenConns: 8, LockTimeout: lockTimeout, StatementTimeout: 2 * lockTimeout,
		ApplicationName: "counts", Contention: seen.Metrics, Session: postgres.Session(), Cluster: sqldb.ClusterCitus,
	}, prometheus.NewRegistry())
	s, err := postgres.New(db, postgres.Options{
		MaxOpenConns: 8, KeyTTL: 15 * time.Minute, JournalTTL: time.Minute,
		Limits: coalesce.Limits{
			LockTimeout: lockTimeout, StatementTimeout: 2 * lockTimeout, Contention: seen.Metrics,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Two replicas add to one count and to many on a cluster: the sums are exact. Every few replies of a worker get lost
// then: what is answered was applied once, and what is answered as not applied was not.
func TestCountsOnCitus(t *testing.T) {
	t.Parallel()
	dsn, workers := apptest.Citus(t, postgres.Migrations())
	distributed(t, dsn, workers)
}

// The statements for Citus are valid on one server too: there TestCountsOnCitus runs on any machine, and the replies
// that get lost are those to the replicas.
func TestCountsOnShardsOfOneServer(t *testing.T) {
	t.Parallel()
	dsn, server := apptest.OneServer(t, postgres.Migrations(), postgres.CreateForShards)
	distributed(t, dsn, []*faultproxy.Proxy{server})
}

// A cleaner deletes the expired row of a caller's key when a repeat has just found it there. The change is applied once
// all the same: by a statement that has the row.
func TestAKeyIsDeletedBeforeItIsTaken(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.CreateForShards)
	s := openDistributed(t, dsn)
	mustCreate(t, s, "k")
	add := func(caller string) (counting.Result, error) {
		return s.Apply(t.Context(), counting.Update{
			Key: counting.Key{Value: "one", Caller: caller}, Changes: []counting.Change{{ItemID: "k", Delta: 1}},
		})
	}
	set := func(caller string) (bool, error) {
		_, replayed, err := s.Set(t.Context(), counting.Key{Value: "two", Caller: caller}, "k", 7)
		return replayed, err
	}
	if _, err := add("bus"); err != nil { // it has the place of all callers
		t.Fatal(err)
	}
	if _, err := set("bus"); err != nil {
		t.Fatal(err)
	}
	apptest.Execute(t, dbtest.Dial(t, dsn), `CREATE TABLE deleted (key text PRIMARY KEY)`, `
CREATE FUNCTION delete_first() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deleted VALUES (NEW.key) ON CONFLICT DO NOTHING;
    RETURN CASE WHEN NOT FOUND THEN NEW END;
END $$`, `
CREATE TRIGGER delete_first BEFORE INSERT ON counts.item_keys FOR EACH ROW WHEN (NEW.caller = 'taxi')
EXECUTE FUNCTION delete_first()`)
	for n := range 2 {
		if got, err := add("taxi"); err != nil || got.Values[0] != 8 || got.Replayed != (n > 0) {
			t.Errorf("add %d: %+v, %v", n, got, err)
		}
	}
	for n := range 2 {
		if replayed, err := set("taxi"); err != nil || replayed != (n > 0) {
			t.Errorf("set %d: replayed %t, %v", n, replayed, err)
		}
	}
}

// The cleaner of keys works through a backlog batch by batch, and skips a key that a statement has locked.
func TestExpiredKeysOfItems(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.CreateForShards)
	s, db := openDistributed(t, dsn), dbtest.Dial(t, dsn)
	apptest.Execute(t, db, `INSERT INTO counts.item_keys (item_id, caller, key, expires_at)
		SELECT 'i' || n % 20, '', n, to_timestamp(n) FROM generate_series(1, 2500) n`,
		`INSERT INTO counts.item_keys (item_id, caller, key, expires_at) VALUES ('i1', '', 'live', 'infinity')`)
	apptest.Hold(t, db, `SELECT FROM counts.item_keys WHERE key = '1' FOR UPDATE`)
	var sizes []int
	if err := s.DeleteExpired(t.Context(), postgres.Keys, func(n int) { sizes = append(sizes, n) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sizes, []int{999, 999, 501}) {
		t.Errorf("deleted %v, want all that have expired but the locked one", sizes)
	}
}

// A key names one count: changes of two with one key are two, also in one group.
func TestAKeyOfTwoCounts(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.CreateForShards)
	s := openDistributed(t, dsn)
	mustCreate(t, s, "a", "b")
	for replayed := range 2 {
		got, err := s.ApplyTogether(t.Context(), time.Second, update("one", "a"), update("one", "b"), update("one", "a"))
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range got {
			if a.Err != nil || a.Locked || a.Values[0] != 1 || a.Replayed != (replayed > 0 || i == 2) {
				t.Errorf("change %d: %+v", i, a)
			}
		}
	}
}

// The suite runs as far as it changes one count at a time, and a key names one count.
func TestRepositoryOnShards(t *testing.T) {
	t.Parallel()
	countingtest.Exercise(t, func(t *testing.T) counting.CountValueRepository {
		t.Helper()
		dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.CreateForShards)
		return openDistributed(t, dsn)
	}, "contract/batch", "contract/batch creates", "contract/repeats", "contract/repeated refusals",
		"contract/repeated create", "contract/key conflicts", "transactions/refused batches", "contention/batches cross",
		"contention/batches are whole", "contention/batches create", "contention/one of a key",
		"contention/keys on a hot item")
}

// distributed changes counts by two stores, and cuts replies on the way through the proxies.
func distributed(t *testing.T, dsn string, workers []*faultproxy.Proxy) {
	t.Helper()
	stores := []*postgres.Store{openDistributed(t, dsn), openDistributed(t, dsn)}
	changesOnCitus(t, stores[0])
	keysOnCitus(t, dsn, stores[0])
	for _, items := range []int{1, 100} {
		addOnCitus(t, stores, fmt.Sprintf("exact%d", items), items)
		for _, w := range workers {
			w.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("slot"))
		}
		addOnCitus(t, stores, fmt.Sprintf("lossy%d", items), items)
		addWithKeysOnCitus(t, stores, fmt.Sprintf("keyed%d", items), items)
		cuts := 0
		for _, w := range workers {
			w.StopCutting()
			cuts += w.Cuts()
		}
		if cuts == 0 {
			t.Error("no reply was cut: the test proved nothing")
		}
		t.Logf("%d replies were cut", cuts)
	}
}

// addOnCitus adds 1 to counts from many callers. The sum is that of the answers: a slot proves the outcome of each add
// whose answer was lost.
func addOnCitus(t *testing.T, stores []*postgres.Store, prefix string, items int) {
	t.Helper()
	id := func(i int) counting.ItemID { return counting.ItemID(fmt.Sprintf("%s-%d", prefix, i%items)) }
	for i := range items {
		for err := errors.New("none"); err != nil && !errors.Is(err, counting.ErrExists); {
			_, err = stores[0].Create(t.Context(), id(i), 0)
		}
	}
	const callers, rounds = 20, 40
	var acknowledged, unknown atomic.Int64
	waittest.Together(t, callers, func(c int) error {
		for r := range rounds {
			_, err := countingtest.Add(t.Context(), stores[c%len(stores)], id(c*rounds+r), 1)
			outcome, ours := sqldb.OutcomeOf(err)
			switch {
			case err == nil:
				acknowledged.Add(1)
			case ours && outcome == sqldb.Unknown:
				unknown.Add(1)
			case !ours:
				return err
			}
		}
		return nil
	})
	var sum int64
	for i := range items {
		v, err := stores[1].Find(t.Context(), id(i))
		if err != nil {
			t.Fatal(err)
		}
		sum += v.Current
	}
	t.Logf("acknowledged %d, unknown %d, sum %d", acknowledged.Load(), unknown.Load(), sum)
	if sum != acknowledged.Load() || unknown.Load() > 0 || acknowledged.Load() == 0 {
		t.Errorf("sum %d, acknowledged %d, unknown %d", sum, acknowledged.Load(), unknown.Load())
	}
}

func changesOnCitus(t *testing.T, s *postgres.Store) {
	t.Helper()
	mustCreate(t, s, "a", "b", "c")
	if _, err := s.Create(t.Context(), "a", 0); !errors.Is(err, counting.ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	if v, err := countingtest.Set(t.Context(), s, "a", 1<<63-1); err != nil || time.Since(v.UpdatedAt) > time.Minute {
		t.Errorf("set: %v, %v", v, err)
	}
	if _, err := countingtest.Add(t.Context(), s, "a", 1); !errors.Is(err, counting.ErrOverflow) {
		t.Errorf("overflow: %v", err)
	}
	for name, err := range map[string]error{
		"add":    func() error { _, err := countingtest.Add(t.Context(), s, "missing", 1); return err }(),
		"set":    func() error { _, err := countingtest.Set(t.Context(), s, "missing", 1); return err }(),
		"delete": s.Delete(t.Context(), "missing"),
	} {
		if !errors.Is(err, counting.ErrNotFound) {
			t.Errorf("%s of a missing count: %v", name, err)
		}
	}
	if err := s.Delete(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	found, err := s.FindMany(t.Context(), []counting.ItemID{"a", "b", "c"})
	if err != nil || len(found) != 2 {
		t.Errorf("found %v, %v", found, err)
	}
	page, err := s.Page(t.Context(), "", "a", 10)
	if err != nil || len(page) != 1 || page[0].ItemID != "c" {
		t.Errorf("page %v, %v", page, err)
	}
	if err := s.DeleteExpired(t.Context(), postgres.Journal, func(int) {}); err != nil {
		t.Error(err)
	}
	for name, u := range map[string]counting.Update{
		"batch":  {Changes: []counting.Change{{ItemID: "a", Delta: -1}, {ItemID: "c", Delta: 1}}},
		"create": {Changes: []counting.Change{{ItemID: "new", Delta: 1}}, Create: true},
	} {
		if _, err := s.Apply(t.Context(), u); !errors.Is(err, counting.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantValue(t, s, "c", 0)
}
