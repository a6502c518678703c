package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
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
