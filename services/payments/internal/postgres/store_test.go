package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	paymenttest.Exercise(t, func(t *testing.T) payment.Repository {
		t.Helper()
		return openStore(t, dbtest.Postgres(t, postgres.Migrations()), sqldb.PoolerNone, postgres.Options{})
	})
}

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	paymenttest.Exercise(t, func(t *testing.T) payment.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		return openStore(t, dbtest.PgBouncer(t, dsn, 8), sqldb.PoolerTransaction, postgres.Options{})
	})
}

// The callers of the suite are on three replicas: no queue of a process orders them.
func TestThreeReplicasPassTheSuite(t *testing.T) {
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

// A key that is held for longer than LockWait is refused after LockWait, on the holder's
// replica and on another; once it is settled, its record is there.
func TestHeldKeyIsRefusedAfterLockWait(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	const lockWait = 200 * time.Millisecond
	o := postgres.Options{LockWait: lockWait}
	same, other := openStore(t, dsn, sqldb.PoolerNone, o), openStore(t, dsn, sqldb.PoolerNone, o)
	release := holder(t, same, "k")
	defer release()
	for _, tc := range []struct {
		where  contention.Place
		waits  float64 // the claim's statement counts, too
		reason contention.Reason
		r      replica
		err    error
	}{
		{contention.InProcess, 1, contention.QueueTimeout, same, bulkhead.ErrBusy},
		{contention.InDatabase, 2, contention.Held, other, payment.ErrProcessing},
	} {
		beforeN, before := tc.r.waits.Waits(t, tc.where)
		if _, err := pay(t.Context(), tc.r, "k"); !errors.Is(err, tc.err) || errors.Is(err, bulkhead.ErrFull) {
			t.Errorf("%s: %v", tc.where, err)
		}
		n, seconds := tc.r.waits.Waits(t, tc.where)
		conflicts := tc.r.waits.Conflicts(t, tc.reason)
		if n-beforeN != tc.waits || seconds-before < 0.19 || conflicts != 1 {
			t.Errorf("%s: %g waits of %g s, %g conflicts", tc.where, n-beforeN, seconds-before, conflicts)
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
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
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

// However many records of a group other transactions have locked, the free keys are claimed: what is there is skipped,
// and what is being inserted is found.
func TestFreeKeysAreClaimed(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	const held = 100
	var group []payment.Claim
	for i := range held {
		key := fmt.Sprint("held", i)
		if _, _, err := paymenttest.Pay(t.Context(), r, key, time.Microsecond); err != nil {
			t.Fatal(err)
		}
		group = append(group, paymenttest.NewClaim(key, time.Hour))
	}
	group = append(group, paymenttest.NewClaim("inserted", time.Hour), paymenttest.NewClaim("z", time.Hour))
	apptest.Hold(t, db, `SELECT FROM payments.idempotency_records FOR UPDATE`)
	if _, owned := begin(t, db, "inserted"); !owned {
		t.Fatal("the former replica does not get a new key")
	}
	claimed, locked, err := r.ClaimFree(t.Context(), group)
	if err != nil || len(locked) != held+1 || len(claimed) != 1 || claimed[0] != "z" {
		t.Errorf("claimed %v, %d are locked, %v; want z, %d", claimed, len(locked), err, held+1)
	}
}

// A committed PROCESSING row without a claim, which no release makes, is not taken over.
func TestCommittedProcessingRow(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{LockWait: 50 * time.Millisecond})
	apptest.Execute(t, dbtest.Dial(t, dsn), `INSERT INTO payments.idempotency_records
		(key, status, request_fingerprint, fingerprint_version, expires_at)
		VALUES ('k', 'PROCESSING', sha256('k'), 'test', now() + interval '1 h')`)
	if _, err := pay(t.Context(), r, "k"); !errors.Is(err, payment.ErrProcessing) {
		t.Errorf("%v, want ErrProcessing", err)
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
	inserting, owned := begin(t, db, "a")
	if !owned {
		t.Fatal("the former replica does not get a new key")
	}
	claimed := make(chan []string, 1)
	go func() {
		keys, err := r.ClaimWaiting(t.Context(), []payment.Claim{
			paymenttest.NewClaim("a", time.Hour), paymenttest.NewClaim("live", time.Hour),
		})
		if err != nil {
			t.Error(err)
		}
		claimed <- keys
	}()
	apptest.WaitForBlocked(t, db, 1)
	if _, fresh, err := r.Settle(t.Context(), live.Held, paymenttest.NewPayment(live.Held)); !fresh || err != nil {
		t.Fatalf("settled: fresh %t, %v", fresh, err)
	}
	if err := inserting.tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if keys := <-claimed; len(keys) != 1 || keys[0] != "a" {
		t.Errorf("claimed %v, want a alone", keys)
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
		"look":    {postgres.LookSQL, []any{pq.StringArray{"k", "l"}}, "idempotency_records_pkey"},
		"overdue": {postgres.OverdueSQL, []any{1, 1, payment.NewID(time.Now()), 16}, "idempotency_records_claimed_until"},
		"open":    {postgres.OpenSQL, []any{1}, "idempotency_records_claimed_until"},
		"page": {
			postgres.PageAfterSQL, []any{"r", 5, time.Now(), string(payment.NewID(time.Now()))}, "payments_ride",
		},
	} {
		var plan []string
		if err := tx.SelectContext(t.Context(), &plan, `EXPLAIN `+statement.sql, statement.args...); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, statement.index) || strings.Contains(text, "Sort") {
			t.Errorf("%s is planned as\n%s", name, text)
		}
	}
	// A change of a claim finds it by its key: the index of all open claims has an entry for each payment since the last
	// vacuum.
	texts, ids, ns := pq.StringArray{"k"}, pq.StringArray{string(payment.NewID(time.Now()))}, pq.Int64Array{1}
	for name, statement := range map[string]struct {
		sql  string
		args []any
	}{
		"claim": {postgres.ClaimSQL(), []any{
			texts, pq.ByteaArray{nil}, texts, ids, ns, ns, texts, texts, texts, ns, texts, texts, texts, ns, ns, ns, "1",
		}},
		"claim of a caller": {postgres.ClaimOfCallersSQL(), []any{
			texts,
			pq.ByteaArray{nil},
			texts, ids, ns, ns, texts, texts, texts, ns, texts, texts, texts, ns, ns, ns, "1",
			texts, texts,
		}},
		"settle": {postgres.SettleSQL(), []any{texts, ids, ids, texts, ns, ns, texts, "1"}},
		"change": {postgres.ChangesSQL(), []any{texts, texts, ids, ids, ns, ns, "1"}},
	} {
		var plan []string
		if err := tx.SelectContext(t.Context(), &plan, `EXPLAIN `+statement.sql, statement.args...); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); strings.Contains(text, "idempotency_records_claimed_until") {
			t.Errorf("%s is planned as\n%s", name, text)
		}
	}
}

// Only the database's clock says that a claim ran out: one that lives is not taken over.
func TestALiveClaimIsNotTakenOver(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
	claimed := r.mustClaim(t)
	defer claimed.Leave()
	if taken, err := r.TakeOver(t.Context(), claimed.Held); taken || err != nil {
		t.Errorf("taken over %t, %v", taken, err)
	}
	if err := r.GiveBack(t.Context(), claimed.Held); err != nil {
		t.Fatal(err)
	}
	if taken, err := r.TakeOver(t.Context(), claimed.Held); !taken || err != nil {
		t.Errorf("given back: taken over %t, %v", taken, err)
	}
}

// A holder whose claim was taken over does not give back the new holder's.
func TestALateHolderGivesNothingBack(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), dbtest.Dial(t, dsn)
	late := r.mustClaim(t)
	defer late.Leave()
	if err := r.GiveBack(t.Context(), late.Held); err != nil {
		t.Fatal(err)
	}
	if taken, err := r.TakeOver(t.Context(), late.Held); !taken || err != nil {
		t.Fatalf("taken over %t, %v", taken, err)
	}
	const stored = `SELECT r::text FROM payments.idempotency_records r`
	var before, after string
	err := errors.Join(db.GetContext(t.Context(), &before, stored), r.GiveBack(t.Context(), late.Held),
		db.GetContext(t.Context(), &after, stored))
	if before != after || err != nil {
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
