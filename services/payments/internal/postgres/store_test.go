package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	paymenttest.Exercise(t, func(t *testing.T) payment.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		return openStore(t, dbtest.PgBouncer(t, dsn, 8), sqldb.PoolerTransaction, postgres.Options{})
	})
}

// The callers of the suite are on three replicas: no queue of a process orders them.
func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	paymenttest.Exercise(t, func(t *testing.T) payment.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		r := &replicas{}
		for range 3 {
			r.all = append(r.all, openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}))
		}
		r.replica = r.all[0]
		return r
	})
}

// A key that is held for longer than LockWait is refused after LockWait, on the holder's replica and on another; once
// it is settled, its record is there.
func TestHeldKeyIsRefusedAfterLockWait(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	const lockWait = 200 * time.Millisecond
	o := postgres.Options{LockWait: lockWait}
	same, other := openStore(t, dsn, sqldb.PoolerNone, o), openStore(t, dsn, sqldb.PoolerNone, o)
	release := holder(t, same, "k")
	defer release()
	for name, r := range map[string]replica{"this replica": same, "another replica": other} {
		if _, err := pay(t.Context(), r, "k"); !errors.Is(err, payment.ErrProcessing) {
			t.Errorf("%s: %v", name, err)
		}
		if n, seconds := r.waits.Waits(t, contention.InProcess); n != 1 || seconds < lockWait.Seconds() || seconds > 1 {
			t.Errorf("%s: %g waits of %g s", name, n, seconds)
		}
		if n := r.waits.Conflicts(t, contention.QueueTimeout); n != 1 {
			t.Errorf("%s: %g conflicts", name, n)
		}
	}
	release()
	for _, r := range []replica{same, other} {
		if fresh, err := pay(t.Context(), r, "k"); err != nil || fresh {
			t.Errorf("afterwards: fresh %t, %v", fresh, err)
		}
	}
}

// While more keys are charged than the pool has connections, others are paid, and a client that leaves the queue of its
// key is let go.
func TestChargesHoldNoConnection(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{LockWait: time.Minute})
	for i := range 20 {
		t.Cleanup(holder(t, r, fmt.Sprint("held", i)))
	}
	if fresh, err := pay(t.Context(), r, "k"); !fresh || err != nil {
		t.Errorf("another key: fresh %t, %v", fresh, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := pay(ctx, r, "held0"); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that disconnects while it waits: %v", err)
	}
}

// However many records of a group other transactions have locked, the free keys are claimed.
func TestFreeKeysAreClaimed(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	const held = 100
	var group []payment.Claim
	for i := range held + 1 {
		key := fmt.Sprint("held", i)
		if _, _, err := paymenttest.Pay(t.Context(), r, key, time.Microsecond); err != nil {
			t.Fatal(err)
		}
		group = append(group, paymenttest.NewClaim(key, time.Hour))
	}
	const free = "held100"
	apptest.Hold(t, db, `SELECT FROM payments.idempotency_records WHERE key <> $1 FOR UPDATE`, free)
	claimed, wait, err := r.ClaimGroup(t.Context(), true, 1, group...)
	if err != nil || len(wait) != held || len(claimed) != 1 || claimed[0] != free {
		t.Errorf("claimed %v, %d wait, %v; want %s, %d", claimed, len(wait), err, free, held)
	}
}

// A claim that waits for another row does not get a key that was live when it began: the payment that is stored
// meanwhile, under a record that has expired by then, is not among those that it counts.
func TestALiveKeyIsNotClaimedLater(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	live, err := r.Claim(t.Context(), paymenttest.NewClaim("live", time.Microsecond))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Leave()
	inserting := apptest.Hold(t, db, rowOf, "a")
	claimed := make(chan []string, 1)
	go func() {
		keys, _, err := r.ClaimGroup(t.Context(), false, 0,
			paymenttest.NewClaim("a", time.Hour), paymenttest.NewClaim("live", time.Hour))
		if err != nil {
			t.Error(err)
		}
		claimed <- keys
	}()
	apptest.WaitForBlocked(t, db, 1)
	if _, fresh, err := r.Settle(t.Context(), live.Held, paymenttest.NewPayment(live.Held)); !fresh || err != nil {
		t.Fatalf("settled: fresh %t, %v", fresh, err)
	}
	inserting.Rollback()
	if keys := <-claimed; len(keys) != 1 || keys[0] != "a" {
		t.Errorf("claimed %v, want a alone", keys)
	}
}

// A repeat of a payment that is stored locks and writes nothing, whatever its caller is.
func TestARepeatWritesNothing(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	if _, err := pay(t.Context(), r, "k"); err != nil {
		t.Fatal(err)
	}
	const versions = `SELECT string_agg(concat(xmin, ' ', xmax), ' ') FROM payments.idempotency_records`
	before := apptest.One[string](t, db, versions)
	for _, caller := range []string{"", "shop"} {
		c := paymenttest.NewClaim("k", time.Hour)
		c.Key.Caller = caller
		if claimed, err := r.Claim(t.Context(), c); claimed.Record == nil || err != nil {
			t.Errorf("%q: %+v, %v", caller, claimed, err)
		}
	}
	if after := apptest.One[string](t, db, versions); after != before {
		t.Errorf("the rows were %s, and are %s", before, after)
	}
}

// Many callers use one key at once on a replica: each has its own payment, and none waits in a crowd for others.
func TestManyCallersOfOneKey(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	o := postgres.Options{}
	o.Share = contention.NewShare(8, nil)
	r := openStore(t, dsn, sqldb.PoolerNone, o)
	waittest.Together(t, 60, func(i int) error {
		c := paymenttest.NewClaim("k", time.Hour)
		c.Key.Caller = fmt.Sprint("caller", i)
		_, fresh, err := paymenttest.Settle(t.Context(), r, c,
			func(h payment.Held) (payment.Payment, error) { return paymenttest.NewPayment(h), nil })
		if err == nil && !fresh {
			err = errors.New("the payment is another caller's")
		}
		return err
	})
}

// The statements that must not read a whole table do not.
func TestStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	tx, err := dbtest.Dial(t, dbtest.Postgres(t, postgres.Migrations())).BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	const onlyIndexes = `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`
	if _, err := tx.ExecContext(t.Context(), onlyIndexes); err != nil {
		t.Fatal(err)
	}
	for name, statement := range map[string]struct {
		sql   string
		args  []any
		index string
	}{
		"cleanup": {postgres.DeleteExpiredSQL, []any{5}, "Index Cond: (expires_at <= "},
		"ledger":  {postgres.DeleteSettledSQL, []any{5, 1000}, "processor_charges_created_at"},
		"overdue": {postgres.OverdueSQL, []any{1, 1, payment.NewID(time.Now()), 16}, "idempotency_records_claimed_until"},
		"open":    {postgres.OpenSQL, []any{1}, "idempotency_records_claimed_until"},
		"page": {
			postgres.PageAfterSQL, []any{"r", 5, time.Now(), string(payment.NewID(time.Now()))}, "payments_ride",
		},
	} {
		plan := apptest.Plan(t, tx, `EXPLAIN `+statement.sql, statement.args...)
		if !strings.Contains(plan, statement.index) || strings.Contains(plan, "Sort") {
			t.Errorf("%s is planned as\n%s", name, plan)
		}
	}
	// A change of a claim finds it by its key: the index of all open claims has an entry for each payment since the last
	// vacuum.
	id := string(payment.NewID(time.Now()))
	texts, sums, ids, ns := pq.StringArray{"k"}, pq.ByteaArray{nil}, pq.StringArray{id}, pq.Int64Array{1}
	claim := []any{
		"1", false,
		texts, texts, sums, texts, sums, ids, ns, ns, texts, texts, texts, ns, texts, texts, texts, ns, ns, ns,
	}
	for name, statement := range map[string]struct {
		sql  string
		args []any
	}{
		"claim":         {postgres.ClaimSQL(false), claim},
		"claim by name": {postgres.ClaimSQL(true), claim},
		"settle":        {postgres.SettleSQL, []any{"1", texts, texts, ids, ids, texts, ns, ns, texts}},
		"end":           {postgres.EndSQL, []any{"1", texts, texts, ids, pq.BoolArray{true}}},
	} {
		plan := apptest.Plan(t, tx, `EXPLAIN `+statement.sql, statement.args...)
		// Nor may the plan of an empty table look for the caller alone.
		if strings.Contains(plan, "idempotency_records_claimed_until") || strings.Contains(plan, "Index Cond: (caller") ||
			strings.Contains(plan, "Index Cond: ((caller") {
			t.Errorf("%s is planned as\n%s", name, plan)
		}
	}
}

// A take-over whose answer was lost is found again by its id, and still says that an earlier holder may have charged.
func TestALostTakeOverIsFoundAgain(t *testing.T) {
	t.Parallel()
	r := openStore(t, dbtest.Postgres(t, postgres.Migrations()), sqldb.PoolerNone, postgres.Options{})
	if err := r.GiveBack(t.Context(), r.mustClaim(t).Held); err != nil {
		t.Fatal(err)
	}
	next := paymenttest.NewClaim("k", time.Hour)
	for range 2 {
		if takenOver, err := r.ClaimAgain(t.Context(), next); !takenOver || err != nil {
			t.Errorf("taken over: %t, %v", takenOver, err)
		}
	}
}

// A holder whose claim was taken over does not give back the new holder's.
func TestALateHolderGivesNothingBack(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	late := r.mustClaim(t)
	if err := r.GiveBack(t.Context(), late.Held); err != nil {
		t.Fatal(err)
	}
	if next := r.mustClaim(t); !next.Held.TakenOver {
		t.Fatalf("claimed %+v", next)
	}
	const stored = `SELECT r::text FROM payments.idempotency_records r`
	before := apptest.One[string](t, db, stored)
	err := r.GiveBack(t.Context(), late.Held)
	if after := apptest.One[string](t, db, stored); before != after || err != nil {
		t.Errorf("the record became\n%s, %v, and was\n%s", after, err, before)
	}
}

// A claim whose record's life is over is looked at once for that. A processor that does not say what became of the
// charge is asked again with pauses as before.
func TestPausesGoOnAfterTheRecordsLife(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	claimed := r.mustClaim(t)
	claimed.Leave()
	apptest.Execute(t, db, `UPDATE payments.idempotency_records SET created_at = now() - interval '24h',
		claimed_until = now() - interval '2h', expires_at = now() - interval '1h'`)
	first, err := r.Overdue(t.Context(), 0, time.Hour, 10)
	if err != nil || len(first) != 1 || !first[0].Expired {
		t.Fatalf("%+v, %v; want one that has expired", first, err)
	}
	if err := r.GiveBack(t.Context(), first[0].Held); err != nil {
		t.Fatal(err)
	}
	if again, err := r.Overdue(t.Context(), 0, time.Hour, 10); len(again) != 0 || err != nil {
		t.Errorf("%+v, %v; want none for half of a day", again, err)
	}
}

// A settlement that waited for its row while the claim was taken over is fenced.
func TestTheFenceHoldsAfterAWait(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	claimed := r.mustClaim(t)
	defer claimed.Leave()
	takeover := apptest.Hold(t, db, `UPDATE payments.idempotency_records SET claim_id = gen_random_uuid()`)
	done := make(chan error, 1)
	go func() {
		_, _, err := r.Settle(t.Context(), claimed.Held, paymenttest.NewPayment(claimed.Held))
		done <- err
	}()
	apptest.WaitForBlocked(t, db, 1)
	takeover.Commit()
	if err := <-done; !errors.Is(err, payment.ErrOutcomeUnknown) {
		t.Errorf("%v, want ErrOutcomeUnknown", err)
	}
	if all, err := r.FindOfRide(t.Context(), "ride", nil, 1); len(all) != 0 || err != nil {
		t.Errorf("%d payments, %v", len(all), err)
	}
}

// Only the database's clock says that a claim ran out: one that lives is not taken over.
func TestALiveClaimIsNotTakenOver(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
	claimed := r.mustClaim(t)
	for _, want := range []int{0, 1} {
		taken, _, err := r.ClaimGroup(t.Context(), false, 0, paymenttest.NewClaim("k", time.Hour))
		if len(taken) != want || err != nil {
			t.Errorf("taken over %v, %v, want %d", taken, err, want)
		}
		if err := r.GiveBack(t.Context(), claimed.Held); err != nil {
			t.Fatal(err)
		}
	}
}
