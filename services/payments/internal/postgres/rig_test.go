package postgres_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.MainWithoutLeaks(m)) }

// replica is one replica's store and its lock metrics.
type replica struct {
	*postgres.Store

	waits *apptest.Contention
}

func openStore(t *testing.T, dsn string, pooler sqldb.Pooler, o postgres.Options) replica {
	t.Helper()
	waits := apptest.NewContention(t, contention.Settings{
		Lock: "key", Queued: true, Grouped: true,
		Reasons: []contention.Reason{contention.Lost, contention.TakenOver},
	})
	db := apptest.Pool(t, sqldb.Settings{
		URL: dsn, Pooler: pooler, MaxOpenConns: 8, LockTimeout: 2 * time.Second, StatementTimeout: 15 * time.Second,
		ApplicationName: "payments", Contention: waits.Metrics, Session: sqldb.PlannedOnce(),
	}, prometheus.NewRegistry())
	if o.LockWait == 0 {
		o.LockWait = 10 * time.Second
	}
	o.DB = db
	o.Encode, o.Contention, o.Queue = paymenttest.Encode, waits.Metrics, 1024
	if o.StatementTimeout == 0 {
		o.LockTimeout, o.StatementTimeout = 2*time.Second, 15*time.Second
	}
	store := postgres.New(o)
	apptest.CloseAtEnd(t, store.Close)
	return replica{store, waits}
}

// mustClaim claims the key "k", whose record lives for an hour.
func (r replica) mustClaim(t *testing.T) payment.Claimed {
	t.Helper()
	claimed, err := r.Claim(t.Context(), paymenttest.NewClaim("k", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// replicas passes each claim to the next of several stores on one database.
type replicas struct {
	replica

	all  []replica
	next atomic.Int64
}

func (r *replicas) Claim(ctx context.Context, c payment.Claim) (payment.Claimed, error) {
	return r.all[int(r.next.Add(1))%len(r.all)].Claim(ctx, c)
}

func pay(ctx context.Context, r replica, key string) (fresh bool, err error) {
	_, fresh, err = paymenttest.Pay(ctx, r, key, time.Hour)
	return fresh, err
}

// holder settles a key slowly: it has the key when the function returns, and
// finishes when release is called.
func holder(t *testing.T, r replica, key string) (release func()) {
	t.Helper()
	charging, finish, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	charge := func(h payment.Held) (payment.Payment, error) {
		close(charging)
		<-finish
		return paymenttest.NewPayment(h), nil
	}
	go func() {
		_, _, err := paymenttest.Settle(context.WithoutCancel(t.Context()), r, paymenttest.NewClaim(key, time.Hour), charge)
		done <- err
	}()
	select {
	case <-charging:
	case err := <-done:
		t.Fatalf("%s is not charged: %v", key, err)
	}
	return sync.OnceFunc(func() {
		close(finish)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// rowOf is a statement that inserts a key's row, in a status, as a claim would that runs out in an hour.
const rowOf = `INSERT INTO payments.idempotency_records
	(key, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key, ride_id, rider_id,
	 amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at, created_at)
	VALUES ($1, 'PROCESSING', sha256(convert_to($1, 'UTF8')), 'test', gen_random_uuid(), now() + interval '1h', 'x', 'r',
	 'r', 1, 'EUR', 'visa', '4242', 12, 2030, now() + interval '1h', now())`
