package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
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

// settle pays a claim, and returns the processor's key that was charged.
func settle(t *testing.T, r replica, c payment.Claim) (charged string, fresh bool, err error) {
	t.Helper()
	_, fresh, err = paymenttest.Settle(t.Context(), r, c, func(h payment.Held) (payment.Payment, error) {
		charged = h.ProcessorKey
		return paymenttest.NewPayment(h), nil
	})
	return charged, fresh, err
}

// Another caller's claim of the key ends at the moment when a caller, which has claimed its own record beside it,
// claims the key once more, on another replica: there the place under the key is free, and the own record not yet to be
// seen.
func TestACallerHasOneRecord(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, replica, payment.Held) error{
		"dropped": func(ctx context.Context, r replica, h payment.Held) error { return r.Drop(ctx, h) },
		// Its life is over, and it counts for the next processor key.
		"settled": func(ctx context.Context, r replica, h payment.Held) error {
			_, _, err := r.Settle(ctx, h, paymenttest.NewPayment(h))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oneRecordOfACaller(t, end)
		})
	}
}

func oneRecordOfACaller(t *testing.T, end func(context.Context, replica, payment.Held) error) {
	t.Helper()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := dbtest.Dial(t, dsn)
	first, second := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), openStore(t, dsn, sqldb.PoolerNone,
		postgres.Options{})
	others := of("B", "k")
	others.TTL = time.Microsecond
	other, err := first.Claim(t.Context(), others)
	if err != nil {
		t.Fatal(err)
	}
	inserting, owned := begin(t, db, "z")
	if !owned {
		t.Fatal("the former replica does not get a new key")
	}
	// The own record of A comes before z, and is not committed until z is free.
	claims := []payment.Claim{of("A", "k"), of("A", "z")}
	claimed := make(chan []string, 1)
	go func() {
		keys, err := first.ClaimWaiting(t.Context(), claims)
		if err != nil {
			t.Error(err)
		}
		claimed <- keys
	}()
	apptest.WaitForBlocked(t, db, 1)
	if err := end(t.Context(), first, other.Held); err != nil {
		t.Fatal(err)
	}
	other.Leave()
	before := len(mustFind(t, first))
	fresh := make(chan bool, 1)
	go func() {
		_, again, err := settle(t, second, of("A", "k"))
		if err != nil {
			t.Error(err)
		}
		fresh <- again
	}()
	apptest.WaitForBlocked(t, db, 2)
	if err := inserting.tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if keys := <-claimed; len(keys) != 2 {
		t.Fatalf("claimed %v, want k and z", keys)
	}
	if _, _, err := settle(t, first, claims[0]); err != nil { // its claim is its own
		t.Error(err)
	}
	if <-fresh {
		t.Error("the key of one caller was claimed twice")
	}
	if n := len(mustFind(t, first)) - before; n != 1 {
		t.Errorf("%d payments of one caller's key, want 1", n)
	}
}

// mustFind returns the payments of the ride that all claims are for.
func mustFind(t *testing.T, r replica) []payment.Payment {
	t.Helper()
	all, err := r.FindOfRide(t.Context(), "ride", nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A replica of the former release and a replica that identifies callers get one request: the caller gets the former
// replica's answer, and the other way round. Records of callers are settled and cleaned as all others.
func TestFormerReplicaBesideCallers(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	holds, _ := begin(t, db, "former first")
	fresh := make(chan bool, 1)
	go func() {
		_, paid, err := settle(t, r, of("shop", "former first"))
		if err != nil {
			t.Error(err)
		}
		fresh <- paid
	}()
	apptest.WaitForBlocked(t, db, 1)
	holds.settle(t)
	if <-fresh {
		t.Error("the former replica's payment was made again for the caller")
	}
	if _, paid, err := settle(t, r, of("shop", "caller first")); !paid || err != nil {
		t.Fatalf("fresh %t, %v", paid, err)
	}
	if f, owned := begin(t, db, "caller first"); owned {
		t.Error("the former replica claims the key of a caller's payment")
	} else if err := f.tx.Rollback(); err != nil {
		t.Error(err)
	}
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
	// Both payments count: the next life of the key has another processor's key.
	next, fresh, err := settle(t, r, of("taxi", "k"))
	if !fresh || err != nil || next != payment.ProcessorKey(payment.Key{Caller: "taxi", Value: "k"}, 2) {
		t.Errorf("%s, fresh %t, %v", next, fresh, err)
	}
}
