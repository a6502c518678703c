package postgres_test

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// of returns a caller's claim of a key.
func of(caller, key string) payment.Claim {
	c := paymenttest.NewClaim(key, time.Hour)
	c.Key.Caller = caller
	return c
}

// Claims of several callers with one key are found by reconcile, settled under their own processor's keys, and expire.
func TestClaimsOfCallersAreReconciled(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
	charged := make(map[string]bool)
	for _, caller := range []string{"shop", "taxi"} {
		c := of(caller, "k")
		c.Lease, c.TTL = time.Microsecond, time.Microsecond
		claimed, err := r.Claim(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		claimed.Leave()
		charged[claimed.Held.ProcessorKey] = true
	}
	overdue, err := r.Overdue(t.Context(), 0, time.Hour, 10)
	if err != nil || len(overdue) != 2 {
		t.Fatalf("%d are overdue, %v, want 2", len(overdue), err)
	}
	for _, o := range overdue {
		if _, fresh, err := r.Settle(t.Context(), o.Held, paymenttest.NewPayment(o.Held)); !fresh || err != nil {
			t.Errorf("settled: fresh %t, %v", fresh, err)
		}
		if delete(charged, o.ProcessorKey); !o.Expired {
			t.Errorf("%+v has not expired", o)
		}
	}
	if len(charged) != 0 {
		t.Errorf("not settled: %v", charged)
	}
	if n, err := r.DeleteExpired(t.Context(), 10); n != 2 || err != nil {
		t.Errorf("%d expired records were deleted, %v, want 2", n, err)
	}
	// The payment counts: the next life of the key has another processor's key.
	next, err := r.Claim(t.Context(), of("taxi", "k"))
	if want := payment.ProcessorKey(payment.Key{Caller: "taxi", Value: "k"}, 1); next.Held.ProcessorKey != want {
		t.Errorf("%+v, %v, want the processor's key %s", next, err, want)
	}
}
