package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

func TestMain(m *testing.M) {
	status := dbtest.Main(m)
	if err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// waits counts what a store observes.
type waits struct {
	*apptest.Contention

	mu   sync.Mutex
	open int
}

func (w *waits) Opened() (closed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open--
	}
}

func (w *waits) opened() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// replica is one replica's store.
type replica struct {
	*postgres.Store

	waits *waits
}

func openStore(t *testing.T, dsn string, pooler sqldb.Pooler, o postgres.Options) replica {
	t.Helper()
	w := &waits{Contention: apptest.NewContention(t, contention.Settings{Lock: "key", Queued: true})}
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		Contention: w.Metrics,
		URL:        dsn, Pooler: pooler, MaxOpenConns: 8, LockTimeout: 2 * time.Second, StatementTimeout: 15 * time.Second,
		ApplicationName: "payments",
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.LockWait == 0 {
		o.LockWait = 10 * time.Second
	}
	if o.Transactions == 0 {
		o.Transactions = 6
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 10 * time.Second
	}
	o.Contention = w.Metrics
	return replica{postgres.New(db, o, w), w}
}

// observer opens a plain pool for what the tests look at and lock.
func observer(t *testing.T, dsn string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.ConnectContext(t.Context(), "postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

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

// replicas hands each call to the next of several stores on one database.
type replicas struct {
	replica

	all  []replica
	next chan int
}

func (r *replicas) Settle(
	ctx context.Context, c payment.Claim, settle func(context.Context, payment.Turn) (payment.Settlement, error),
) (payment.Record, bool, error) {
	n := <-r.next
	r.next <- n + 1
	return r.all[n%len(r.all)].Settle(ctx, c, settle)
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

func claim(key payment.Key) payment.Claim {
	return payment.Claim{Key: key, Fingerprint: payment.Fingerprint{Sum: make([]byte, 32), Version: "test"}, TTL: time.Hour}
}

func settlement(key payment.Key, turn payment.Turn) payment.Settlement {
	return payment.Settlement{
		Payment: payment.Payment{
			ID: payment.NewID(turn.Now), RideID: "ride", RiderID: "rider", Amount: 1, Currency: "EUR", Status: payment.Succeeded,
			Card: payment.CardFace{Brand: "visa", Last4: "4242", ExpMonth: 1, ExpYear: 2030}, CreatedAt: turn.Now,
		},
		ProcessorKey: payment.ProcessorKey(key, turn.Earlier),
		Response:     payment.Response{Status: 201, Body: []byte(`{}`)},
	}
}

// settles answers at once.
func settles(key payment.Key) func(context.Context, payment.Turn) (payment.Settlement, error) {
	return func(_ context.Context, turn payment.Turn) (payment.Settlement, error) {
		return settlement(key, turn), nil
	}
}

// holder settles a key slowly: it has the key when the function returns, and
// finishes when release is called.
func holder(t *testing.T, r replica, key payment.Key) (release func()) {
	t.Helper()
	inside, finish, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, _, err := r.Settle(t.Context(), claim(key), func(_ context.Context, turn payment.Turn) (payment.Settlement, error) {
			close(inside)
			<-finish
			return settlement(key, turn), nil
		})
		done <- err
	}()
	<-inside
	return sync.OnceFunc(func() {
		close(finish)
		if err := <-done; err != nil {
			t.Error(err)
		}
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

func execute(t *testing.T, db *sqlx.DB, statement string) {
	t.Helper()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), statement)
		err = errors.Join(err, tx.Commit())
	}
	if err != nil {
		t.Fatal(err)
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
