package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// The database restarts after the card was charged: the payment is recorded as soon as it is back.
func TestASettlementOutlivesARestart(t *testing.T) {
	t.Parallel()
	direct := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, direct)
	o := postgres.Options{Limits: groupcommit.Limits{Timeout: time.Minute}}
	r := openStore(t, proxy.DSN(direct), sqldb.PoolerNone, o)
	claimed := r.mustClaim(t)
	defer claimed.Leave()

	proxy.Refuse()
	proxy.Drop(faultproxy.RST)
	settled := make(chan error, 1)
	go func() {
		_, fresh, err := r.Settle(t.Context(), claimed.Held, paymenttest.NewPayment(claimed.Held))
		if !fresh {
			err = errors.Join(errors.New("it is not the first one"), err)
		}
		settled <- err
	}()
	select {
	case err := <-settled:
		t.Fatalf("the database was away, and the answer was %v", err)
	case <-time.After(300 * time.Millisecond): // it is refused within a millisecond
	}
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Error(err)
	}
}

// Many callers on two replicas pay few keys while every few replies of the database get lost: each key is paid once,
// all its charges have one processor's key, and all its callers get the same bytes.
func TestPaymentsWhileRepliesGetLost(t *testing.T) {
	t.Parallel()
	direct := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, direct)
	stores := &replicas{}
	for range 2 {
		stores.all = append(stores.all, openStore(t, proxy.DSN(direct), sqldb.PoolerNone, postgres.Options{}))
	}
	stores.replica = stores.all[0]
	proxy.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("idempotency_records"))

	const keys, callers, patience = 30, 16, time.Minute
	var mu sync.Mutex
	receipts, charged := make(map[string][]byte), make(map[string]string)
	answered := func(key string, receipt []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if first := receipts[key]; first != nil && !bytes.Equal(first, receipt) {
			return fmt.Errorf("%s is answered with\n%s\nand\n%s", key, first, receipt)
		}
		receipts[key] = receipt
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	payUntilAnswered := func(key string) error {
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
			if err == nil {
				return answered(key, r.Receipt.Data)
			}
			if ctx.Err() != nil {
				return err
			}
		}
	}
	waittest.Together(t, callers, func(i int) error {
		for n := range keys {
			if err := payUntilAnswered(fmt.Sprint("key ", (i+n)%keys)); err != nil {
				return err
			}
		}
		return nil
	})
	proxy.StopCutting()

	if cuts := proxy.Cuts(); cuts < keys/4 {
		t.Errorf("%d replies were cut: the test proved little", cuts)
	}
	page, err := stores.FindOfRide(t.Context(), "ride", nil, 1000)
	if err != nil || len(page) != keys {
		t.Errorf("%d payments for %d keys: %v", len(page), keys, err)
	}
	if len(receipts) != keys {
		t.Errorf("%d receipts for %d keys", len(receipts), keys)
	}
}
