package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

func onCitus(s *sqldb.Settings) { s.Cluster = sqldb.ClusterCitus }

// openDistributed opens two replicas on a cluster, which take turns.
func openDistributed(t *testing.T, dsn string) *replicas {
	t.Helper()
	r := &replicas{}
	for range 2 {
		r.all = append(r.all, openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}, onCitus))
	}
	r.replica = r.all[0]
	return r
}

// onBoth runs a test of one server, and of one that stands for the workers of a cluster.
func onBoth(t *testing.T, test func(t *testing.T, dsn string, open func(postgres.Options) replica)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		test(t, dsn, func(o postgres.Options) replica { return openStore(t, dsn, sqldb.PoolerNone, o) })
	})
	t.Run("shards", func(t *testing.T) {
		t.Parallel()
		dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.ForShards()...)
		test(t, dsn, func(o postgres.Options) replica { return openStore(t, dsn, sqldb.PoolerNone, o, onCitus) })
	})
}

func TestStoreOnCitusPassesTheSuite(t *testing.T) {
	t.Parallel()
	cluster := apptest.NewCitusCluster(t)
	paymenttest.Exercise(t, func(t *testing.T) payment.Repository {
		t.Helper()
		return openDistributed(t, cluster.Database(t, postgres.Migrations()))
	})
}

// The statements for Citus are valid on one server too: there the suite runs on any machine.
func TestStoreOnShardsOfOneServerPassesTheSuite(t *testing.T) {
	t.Parallel()
	paymenttest.Exercise(t, func(t *testing.T) payment.Repository {
		t.Helper()
		dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.ForShards()...)
		return openDistributed(t, dsn)
	})
}

// Many callers pay few keys while every few replies of the workers get lost, of statements and of COMMITs: each key is
// paid once, all its charges have one processor's key, and all its callers get the same bytes.
func TestPaymentsOnCitus(t *testing.T) {
	t.Parallel()
	dsn, workers := apptest.Citus(t, postgres.Migrations())
	payWithLosses(t, dsn, workers)
}

func TestPaymentsOnShardsOfOneServer(t *testing.T) {
	t.Parallel()
	dsn, server := apptest.OneServer(t, postgres.Migrations(), postgres.ForShards()...)
	payWithLosses(t, dsn, []*faultproxy.Proxy{server})
}

func payWithLosses(t *testing.T, dsn string, workers []*faultproxy.Proxy) {
	t.Helper()
	stores := openDistributed(t, dsn)
	for _, w := range workers {
		w.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("payments."))
		w.CutEvery(5, faultproxy.AfterCommit, faultproxy.RST)
	}
	const keys, callers, patience = 40, 160, time.Minute
	var mu sync.Mutex
	receipts, charged := make(map[string][]byte), make(map[string]string)
	tries := 0
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	waittest.Together(t, callers, func(i int) error {
		key := fmt.Sprintf("key %d", i%keys)
		claim := paymenttest.NewClaim(key, time.Hour)
		claim.Lease = 100 * time.Millisecond
		charge := func(h payment.Held) (payment.Payment, error) {
			mu.Lock()
			defer mu.Unlock()
			if first := charged[key]; first != "" && first != h.ProcessorKey {
				t.Errorf("%s is charged under %s and %s", key, first, h.ProcessorKey)
			}
			charged[key] = h.ProcessorKey
			return paymenttest.NewPayment(h), nil
		}
		for {
			claim.ID = payment.ClaimID(payment.NewID(time.Now()))
			r, _, err := paymenttest.Settle(ctx, stores, claim, charge)
			mu.Lock()
			tries++
			switch {
			case err != nil:
			case receipts[key] == nil:
				receipts[key] = r.Receipt.Data
			case !bytes.Equal(receipts[key], r.Receipt.Data):
				t.Errorf("%s is answered with\n%s\nand\n%s", key, receipts[key], r.Receipt.Data)
			}
			mu.Unlock()
			if err == nil || ctx.Err() != nil {
				return err
			}
		}
	})
	cuts := 0
	for _, w := range workers {
		w.StopCutting()
		cuts += w.Cuts()
	}
	t.Logf("%d tries of %d callers, %d replies were cut", tries, callers, cuts)
	if cuts < keys/4 {
		t.Errorf("%d replies were cut: the test proved little", cuts)
	}
	page, err := stores.FindOfRide(t.Context(), "ride", nil, 1000)
	if err != nil || len(page) != keys || len(receipts) != keys {
		t.Errorf("%d payments and %d receipts for %d keys: %v", len(page), len(receipts), keys, err)
	}
}
