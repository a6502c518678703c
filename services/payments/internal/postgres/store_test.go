package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
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

// The same suite with the contenders on three replicas: nothing in the process
// helps, the database decides.
func TestThreeReplicasPassTheSuite(t *testing.T) {
	t.Parallel()
	paymenttest.Exercise(t, func(t *testing.T) payment.Repository {
		t.Helper()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		r := &replicas{next: make(chan int, 1)}
		for range 3 {
			r.all = append(r.all, openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}))
		}
		r.replica = r.all[0]
		r.next <- 0
		return r
	})
}

// A key that is held for longer than LockWait is ErrProcessing, on the holder's
// replica and on another; once it is free, its record is there.
func TestHeldKeyIsProcessing(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	o := postgres.Options{LockWait: 200 * time.Millisecond}
	same, other := openStore(t, dsn, sqldb.PoolerNone, o), openStore(t, dsn, sqldb.PoolerNone, o)
	release := holder(t, same, "k")
	defer release()
	for where, r := range map[contention.Place]replica{contention.InProcess: same, contention.InDatabase: other} {
		beforeN, before := r.waits.Waits(t, where)
		begin := time.Now()
		_, _, err := r.Settle(t.Context(), claim("k"), settles("k"))
		if took := time.Since(begin); !errors.Is(err, payment.ErrProcessing) || took < 200*time.Millisecond || took > 2*time.Second {
			t.Errorf("%s: %v after %s", where, err, took)
		}
		reason := map[contention.Place]contention.Reason{
			contention.InProcess: contention.QueueTimeout, contention.InDatabase: contention.LockTimeout,
		}[where]
		if n, seconds := r.waits.Waits(t, where); n-beforeN != 1 || seconds-before < 0.19 || r.waits.Conflicts(t, reason) != 1 {
			t.Errorf("%s: %g waits of %g s, %g conflicts", where, n-beforeN, seconds-before, r.waits.Conflicts(t, reason))
		}
	}
	release()
	for _, r := range []replica{same, other} {
		if _, fresh, err := r.Settle(t.Context(), claim("k"), settles("k")); err != nil || fresh {
			t.Errorf("afterwards: fresh %t, %v", fresh, err)
		}
	}
}

// Waiters of one replica hold no connection: a hundred of them leave the pool, and
// the places for payments, to others.
func TestCrowdOnOneKeyLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
	release := holder(t, r, "slow")
	var crowd sync.WaitGroup
	for range 100 {
		crowd.Go(func() {
			if _, fresh, err := r.Settle(t.Context(), claim("slow"), settles("slow")); err != nil || fresh {
				t.Errorf("a waiter: fresh %t, %v", fresh, err)
			}
		})
	}
	for i := range 20 {
		key := payment.Key(fmt.Sprint("other", i))
		if _, fresh, err := r.Settle(t.Context(), claim(key), settles(key)); err != nil || !fresh {
			t.Errorf("another key: fresh %t, %v", fresh, err)
		}
	}
	if n := r.waits.opened(); n != 1 {
		t.Errorf("%d transactions are open beside the crowd, want the holder's alone", n)
	}
	release()
	crowd.Wait()
}

// With all places taken a further key waits, then hears that nothing was done; reads
// go on.
func TestAllPlacesTaken(t *testing.T) {
	t.Parallel()
	r := openStore(t, dbtest.Postgres(t, postgres.Migrations()), sqldb.PoolerNone, postgres.Options{
		Transactions: 2, LockWait: 300 * time.Millisecond,
	})
	first, second := holder(t, r, "held0"), holder(t, r, "held1")
	defer first()
	defer second()
	if _, _, err := r.Settle(t.Context(), claim("k"), settles("k")); !errors.Is(err, payment.ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, _, err := r.Settle(ctx, claim("k"), settles("k")); !errors.Is(err, payment.ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Errorf("a client that leaves while it waits for a place: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, _, err := r.Settle(ctx, claim("held0"), settles("held0")); !errors.Is(err, payment.ErrBusy) {
		t.Errorf("a client that leaves while it waits for its key: %v", err)
	}
	if _, err := r.Find(t.Context(), payment.NewID(time.Now())); !errors.Is(err, payment.ErrNotFound) {
		t.Errorf("a read: %v", err)
	}
}

// The client leaves while its card is being charged: the payment is finished, so
// that the charge is not left without it.
func TestLeavingClientDoesNotUndoTheCharge(t *testing.T) {
	t.Parallel()
	r := openStore(t, dbtest.Postgres(t, postgres.Migrations()), sqldb.PoolerNone, postgres.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	_, fresh, err := r.Settle(ctx, claim("k"), func(ctx context.Context, turn payment.Turn) (payment.Settlement, error) {
		cancel()
		return settlement("k", turn), ctx.Err()
	})
	if err != nil || !fresh {
		t.Errorf("fresh %t, %v", fresh, err)
	}
}

// A committed PROCESSING row is nobody's here, and nobody's to take.
func TestCommittedProcessingRow(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{})
	execute(t, observer(t, dsn), `INSERT INTO payments.idempotency_records (key, status, request_fingerprint, fingerprint_version, expires_at)
		VALUES ('k', 'PROCESSING', decode(repeat('00', 32), 'hex'), 'test', now() + interval '1 h')`)
	if _, _, err := r.Settle(t.Context(), claim("k"), settles("k")); !errors.Is(err, payment.ErrProcessing) {
		t.Errorf("%v, want ErrProcessing", err)
	}
}

// The cleaner skips a row that somebody holds instead of waiting for it.
func TestCleanerDoesNotWait(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}), observer(t, dsn)
	for _, key := range []payment.Key{"held", "free"} {
		c := claim(key)
		c.TTL = time.Microsecond
		if _, _, err := r.Settle(t.Context(), c, settles(key)); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM payments.idempotency_records WHERE key = 'held' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if n, err := r.DeleteExpired(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("deleted %d, %v, want 1", n, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n, err := r.DeleteExpired(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("deleted %d, %v, want 1", n, err)
	}
}

// The statements that must not read a whole table do not.
func TestStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	db := observer(t, dbtest.Postgres(t, postgres.Migrations()))
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`); err != nil {
		t.Fatal(err)
	}
	for statement, index := range map[string]string{
		`SELECT key FROM payments.idempotency_records WHERE expires_at <= (SELECT clock_timestamp()) ORDER BY expires_at LIMIT 5
			FOR UPDATE SKIP LOCKED`: "Index Cond: (expires_at <= $0)",
		`SELECT count(*) FROM payments.payments WHERE idempotency_key = 'k'`: "payments_idempotency_key",
		`SELECT id FROM payments.payments WHERE ride_id = 'r' AND (created_at, id) < (now(), gen_random_uuid())
			ORDER BY created_at DESC, id DESC LIMIT 5`: "payments_ride",
	} {
		var plan []string
		if err := tx.SelectContext(t.Context(), &plan, `EXPLAIN `+statement); err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(plan); !strings.Contains(text, index) || strings.Contains(text, "Sort") {
			t.Errorf("%s\nis planned as %s", statement, text)
		}
	}
}

// A COMMIT whose reply is lost: the answer is the true one, never "failed".
func TestLostReplyToCommit(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			proxy := faultproxy.New(t, dsn)
			r := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone, postgres.Options{})
			for i := range 10 {
				proxy.Cut(faultproxy.AfterCommit, how)
				key := payment.Key(fmt.Sprint("k", i))
				record, fresh, err := r.Settle(t.Context(), claim(key), settles(key))
				if err != nil || !fresh {
					t.Fatalf("fresh %t, %v", fresh, err)
				}
				again, fresh, err := r.Settle(t.Context(), claim(key), settles(key))
				if err != nil || fresh || again.PaymentID != record.PaymentID {
					t.Fatalf("the repeat: fresh %t, %v, %+v, want %+v", fresh, err, again, record)
				}
			}
			if proxy.Cuts() < 10 {
				t.Errorf("%d cuts: the test proved nothing", proxy.Cuts())
			}
		})
	}
}

// The connection breaks after the charge and before COMMIT, twice: nobody says
// "not applied", because the card was charged.
func TestLostAfterTheCharge(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	r := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone, postgres.Options{})
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("INSERT INTO payments.payments"), faultproxy.Times(2))
	if _, _, err := r.Settle(t.Context(), claim("k"), settles("k")); !errors.Is(err, payment.ErrOutcomeUnknown) {
		t.Errorf("%v, want ErrOutcomeUnknown", err)
	}
	// Once is mended by a second transaction.
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("INSERT INTO payments.payments"))
	if _, fresh, err := r.Settle(t.Context(), claim("once"), settles("once")); err != nil || !fresh {
		t.Errorf("cut once: fresh %t, %v", fresh, err)
	}
	// Before the charge it is plainly not applied.
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("INSERT INTO payments.idempotency_records"))
	_, _, err := r.Settle(t.Context(), claim("k"), settles("k"))
	if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.NotApplied || errors.Is(err, payment.ErrOutcomeUnknown) {
		t.Errorf("%v, want not applied", err)
	}
	if _, fresh, err := r.Settle(t.Context(), claim("k"), settles("k")); err != nil || !fresh {
		t.Errorf("the repeat: fresh %t, %v", fresh, err)
	}
}
