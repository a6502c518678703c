package postgres_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// openDistributed opens a store on Citus.
func openDistributed(t *testing.T, dsn string) *replica {
	t.Helper()
	s, _ := openOn(t, sqldb.Settings{URL: dsn, LockTimeout: 20 * time.Second, Cluster: sqldb.ClusterCitus})
	return s
}

// What is refused on a cluster is refused whole; everything else passes the suite, by the statements for Citus on one
// server.
func TestRepositoryOnShards(t *testing.T) {
	t.Parallel()
	countingtest.Exercise(t, func(t *testing.T) counting.CountValueRepository {
		t.Helper()
		dsn, _ := apptest.OneServer(t, postgres.Migrations())
		return openDistributed(t, dsn)
	}, "contract/batch", "contract/batch creates", "contract/repeats", "contract/repeated set",
		"contract/repeated refusals", "contract/repeated delete", "contract/key conflicts", "contract/keys of callers",
		"contract/keys of no caller", "transactions/refused batches", "transactions/free key", "contention/one of a key",
		"contention/keys on a hot item")
}

// Two replicas change one count and many, also while replies get lost: the sums are exact.
func TestCountsOnCitus(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		dsn, server := apptest.OneServer(t, postgres.Migrations())
		distributed(t, dsn, []*faultproxy.Proxy{server})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		dsn, workers := apptest.Citus(t, postgres.Migrations())
		distributed(t, dsn, workers)
	})
}

func TestStatementsGoToOneWorkerOnCitus(t *testing.T) {
	t.Parallel()
	apptest.GoToOneWorker(t, postgres.Migrations(), postgres.CitusStatements())
}

// distributed changes counts by two stores, and cuts replies on the way through the proxies.
func distributed(t *testing.T, dsn string, proxies []*faultproxy.Proxy) {
	t.Helper()
	stores := []*replica{openDistributed(t, dsn), openDistributed(t, dsn)}
	changesOnCitus(t, stores[0])
	for _, items := range []int{1, 100} {
		addOnCitus(t, stores, fmt.Sprintf("exact%d", items), items)
		for _, p := range proxies {
			p.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("slot"))
		}
		addOnCitus(t, stores, fmt.Sprintf("lossy%d", items), items)
		cuts := 0
		for _, p := range proxies {
			p.StopCutting()
			cuts += p.Cuts()
		}
		if cuts == 0 {
			t.Error("no reply was cut: the test proved nothing")
		}
	}
}

// addOnCitus adds 1 to counts from many callers. The sum is the sum of the answers: a slot proves the outcome of each
// add whose answer was lost.
func addOnCitus(t *testing.T, stores []*replica, prefix string, items int) {
	t.Helper()
	id := func(i int) counting.ItemID { return counting.ItemID(fmt.Sprintf("%s-%d", prefix, i%items)) }
	for i := range items {
		_, err := untilApplied(func() (counting.CountValue, error) { return stores[0].Create(t.Context(), id(i), 0) })
		if err != nil {
			t.Fatal(err)
		}
	}
	const callers, rounds = 20, 40
	var acknowledged atomic.Int64
	waittest.Together(t, callers, func(c int) error {
		for r := range rounds {
			_, err := untilApplied(func() (int64, error) {
				return countingtest.Add(t.Context(), stores[c%len(stores)], id(c*rounds+r), 1)
			})
			if err != nil {
				return err
			}
			acknowledged.Add(1)
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
	if sum != acknowledged.Load() {
		t.Errorf("the sum is %d, %d were acknowledged", sum, acknowledged.Load())
	}
}

func changesOnCitus(t *testing.T, s *replica) {
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
	create := update("", "new")
	create.CreateMissing = true
	for name, u := range map[string]counting.Request{
		"batch": update("", "a", "c"), "key": update("k", "c"), "create": create,
	} {
		if _, err := s.Change(t.Context(), u); !errors.Is(err, counting.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.Set(t.Context(), counting.Key{Value: "k"}, "c", 1); !errors.Is(err, counting.ErrNotSupported) {
		t.Errorf("a set with a key: %v", err)
	}
	wantValue(t, s, "c", 0)
}
