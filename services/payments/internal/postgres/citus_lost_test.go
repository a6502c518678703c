package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// A COMMIT that no worker gets, once and twice in a row: a payment that is answered is stored, and one whose outcome is
// unknown is paid once by its repeat.
func TestACommitThatNoWorkerGets(t *testing.T) {
	t.Parallel()
	dsn, workers := apptest.Citus(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}, onCitus)
	unknown := 0
	const rounds = 10
	for lost := 1; lost <= 4; lost++ {
		for i := range rounds {
			key := fmt.Sprint("k", lost, "-", i)
			claimed, err := r.Claim(t.Context(), paymenttest.NewClaim(key, time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range workers {
				w.Cut(faultproxy.BeforeCommit, faultproxy.RST, faultproxy.Times(lost))
			}
			p := paymenttest.NewPayment(claimed.Held)
			_, fresh, err := r.Settle(t.Context(), claimed.Held, p)
			for _, w := range workers {
				w.StopCutting()
			}
			stored, findErr := r.Find(t.Context(), p.ID)
			switch {
			case err == nil && (!fresh || findErr != nil || stored != p):
				t.Errorf("%s is answered as settled, and found is %+v, %v", key, stored, findErr)
			case err != nil && !errors.Is(err, payment.ErrOutcomeUnknown):
				t.Errorf("%s: %v, want ErrOutcomeUnknown", key, err)
			case err != nil:
				unknown++
				if _, _, err := r.Settle(t.Context(), claimed.Held, p); err != nil {
					t.Errorf("%s again: %v", key, err)
				}
			}
			claimed.Leave(true)
		}
	}
	cuts := 0
	for _, w := range workers {
		cuts += w.Cuts()
	}
	t.Logf("%d COMMITs were lost, %d outcomes were unknown", cuts, unknown)
	if cuts == 0 || unknown == 0 {
		t.Error("nothing was lost: the test proved nothing")
	}
	if page, err := r.FindOfRide(t.Context(), "ride", nil, 1000); err != nil || len(page) != 4*rounds {
		t.Errorf("%d payments, %v, want %d", len(page), err, 4*rounds)
	}
}

// On the workers too a takeover waits for a locked row for LockWait, and the ledger's settled entries are deleted.
func TestWaitsAndCleanupOnCitus(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.Citus(t, postgres.Migrations())
	r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{LockWait: 100 * time.Millisecond}, onCitus)
	claimed := r.mustClaim(t)
	if err := r.GiveBack(t.Context(), claimed.Held); err != nil {
		t.Fatal(err)
	}
	claimed.Leave(false)
	db := dbtest.Dial(t, dsn)
	lock := apptest.Hold(t, db, `SELECT FROM payments.idempotency_records WHERE bare = 'k' FOR UPDATE`)
	begin := time.Now()
	if _, err := pay(t.Context(), r, "k"); !errors.Is(err, payment.ErrProcessing) {
		t.Errorf("%v, want ErrProcessing", err)
	}
	if took := time.Since(begin); took > 3*time.Second { // the role's lock_timeout is 5 s
		t.Errorf("it took %s", took)
	}
	lock.Rollback()
	for i := range 5 {
		if fresh, err := pay(t.Context(), r, fmt.Sprint("old", i)); !fresh || err != nil {
			t.Fatal(fresh, err)
		}
	}
	apptest.Execute(t, db,
		`INSERT INTO payments.processor_charges (processor_key, amount, currency, card_fingerprint, fingerprint_version,
		 created_at) SELECT processor_key, amount, currency, decode(repeat('00', 32), 'hex'), 'test',
		 TIMESTAMPTZ '2020-01-01' FROM payments.payments`,
		`INSERT INTO payments.processor_charges (processor_key, amount, currency, card_fingerprint, fingerprint_version,
		 created_at) VALUES ('lost', 1, 'EUR', decode(repeat('00', 32), 'hex'), 'test', TIMESTAMPTZ '2019-01-01')`,
		`UPDATE payments.payments SET created_at = TIMESTAMPTZ '2020-01-01'`)
	for _, want := range []int{2, 2, 1, 0} {
		if n, err := r.DeleteSettled(t.Context(), time.Hour, 2); n != want || err != nil {
			t.Errorf("deleted %d, %v, want %d", n, err, want)
		}
	}
}

// Another replica claims a key meanwhile in the caller's other place, and Citus does not say which constraint that
// violates, as here a name that the service does not know does not: the request waits for that claim.
func TestAClaimMeetsItsOtherPlace(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.OneServer(t, postgres.Migrations(), append(postgres.ForShards(),
		`ALTER INDEX payments.idempotency_records_of_caller RENAME TO unnamed`)...)
	r, db := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}, onCitus), dbtest.Dial(t, dsn)
	if _, err := pay(t.Context(), r, "other"); err != nil {
		t.Fatal(err)
	}
	other := apptest.Hold(t, db, `INSERT INTO payments.idempotency_records
		SELECT (jsonb_populate_record(r, '{"bare": "k", "key": "shop\nk", "caller": "shop"}')).*
		  FROM payments.idempotency_records r`)
	c := paymenttest.NewClaim("other", time.Hour)
	c.Key = payment.Key{Value: "k", Caller: "shop"}
	claimed := make(chan error)
	go func() {
		found, err := r.Claim(t.Context(), c)
		if err == nil && found.Record == nil {
			err = errors.New("the key is claimed twice")
		}
		claimed <- err
	}()
	apptest.WaitForBlocked(t, db, 1)
	other.Commit()
	if err := <-claimed; err != nil {
		t.Error(err)
	}
}

// A takeover whose reply was lost recognises that it was applied.
func TestALostTakeover(t *testing.T) {
	t.Parallel()
	for cluster, tc := range map[sqldb.Cluster]struct {
		schema []string
		reply  faultproxy.When
	}{
		sqldb.ClusterNone:  {nil, faultproxy.AfterStatement},
		sqldb.ClusterCitus: {postgres.ForShards(), faultproxy.AfterCommit},
	} {
		dsn, server := apptest.OneServer(t, postgres.Migrations(), tc.schema...)
		on := func(s *sqldb.Settings) { s.Cluster = cluster }
		r := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}, on)
		claimed := r.mustClaim(t)
		claimed.Leave(false)
		if err := r.GiveBack(t.Context(), claimed.Held); err != nil {
			t.Fatal(err)
		}
		server.Cut(tc.reply, faultproxy.RST)
		if taken, err := r.TakeOver(t.Context(), claimed.Held); !taken || err != nil || server.Cuts() != 1 {
			t.Errorf("%s: taken over %t, %v, %d replies were cut", cluster, taken, err, server.Cuts())
		}
	}
}

// The reconcile loop leaves a claim alone that changes between its look and its takeover, and one that the
// coordinator's clock does not call due: here the look itself, which reads the clock, lets them change.
func TestClaimsThatChangeAreNotTakenOver(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.OneServer(t, postgres.Migrations(), append(postgres.ForShards(), "CREATE SCHEMA meanwhile",
		`CREATE FUNCTION meanwhile.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$
			UPDATE payments.idempotency_records SET claim_id = gen_random_uuid() WHERE key = 'taken over';
			UPDATE payments.idempotency_records SET claimed_until = now() + interval '1h' WHERE key = 'not due';
			SELECT pg_catalog.clock_timestamp() $$`)...)
	first := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}, onCitus)
	for _, key := range []string{"taken over", "not due", "unchanged"} {
		c := paymenttest.NewClaim(key, time.Hour)
		c.Lease = time.Microsecond
		claimed, err := first.Claim(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		claimed.Leave(false)
	}
	dsn += "&search_path=meanwhile,pg_catalog,public"
	second := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}, onCitus)
	due, err := second.Overdue(t.Context(), 0, time.Hour, 10)
	if err != nil || len(due) != 1 || due[0].Record != "unchanged" {
		t.Errorf("taken over are %+v, %v, want the unchanged one", due, err)
	}
}

// A worker's clock that is ahead of the coordinator's shows a claim as run out that cannot be taken over yet, and a
// record as expired that cannot be replaced: a request waits for either no longer than LockWait.
func TestLockWaitHoldsThoughClocksDiffer(t *testing.T) {
	t.Parallel()
	const ahead, lockWait = 4 * time.Second, 200 * time.Millisecond
	dsn, _ := apptest.OneServer(t, postgres.Migrations(), append(postgres.ForShards(), "CREATE SCHEMA skewed",
		`CREATE FUNCTION skewed.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
			AS $$ SELECT pg_catalog.statement_timestamp() - interval '4s' $$`)...)
	dsn += "&search_path=skewed,pg_catalog,public"
	first := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{}, onCitus)
	second := openStore(t, dsn, sqldb.PoolerNone, postgres.Options{LockWait: lockWait}, onCitus)
	c := paymenttest.NewClaim("k", time.Hour)
	c.Lease = ahead - time.Second
	claimed, err := first.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer claimed.Leave(false)
	begin := time.Now()
	if _, err := pay(t.Context(), second, "k"); !errors.Is(err, payment.ErrProcessing) {
		t.Errorf("%v, want ErrProcessing", err)
	}
	if took := time.Since(begin); took > 5*lockWait {
		t.Errorf("it took %s", took)
	}
	if _, err := pay(t.Context(), first, "paid"); err != nil {
		t.Fatal(err)
	}
	apptest.Execute(t, dbtest.Dial(t, dsn),
		`UPDATE payments.idempotency_records SET expires_at = pg_catalog.clock_timestamp() WHERE key = 'paid'`)
	begin = time.Now()
	if _, err := pay(t.Context(), second, "paid"); !errors.Is(err, payment.ErrProcessing) {
		t.Errorf("of a record that has expired: %v, want ErrProcessing", err)
	}
	if took := time.Since(begin); took > 5*lockWait {
		t.Errorf("it took %s", took)
	}
}
