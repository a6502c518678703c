package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// 200 concurrent requests with one new key over three replicas: one payment, one
// charge, one answer, 199 times marked as given before.
func TestTwoHundredWithOneKey(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	rs := startAll(t, dsn, 3, map[string]string{"PROCESSOR_LATENCY": "50ms"})
	answers := make([]answer, 200)
	apptest.Together(len(answers), func(i int) { answers[i] = rs[i%3].pay(t, "one-key", body(1250, goodCard)) })
	fresh := 0
	for _, a := range answers {
		a.want(t, 201, "SUCCEEDED")
		if a.Body != answers[0].Body || a.Header.Get("Location") != answers[0].Header.Get("Location") {
			t.Errorf("two answers to one key:\n%s\n%s", a, answers[0])
		}
		if !a.replayed {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not marked as replayed, want 1", fresh)
	}
	open(t, dsn).counts(t, 1, 1, 1)
	var settled, replayed float64
	for _, r := range rs {
		settled += r.Metric(t, `payments_total{status="SUCCEEDED"}`)
		replayed += r.Metric(t, `payments_replays_total`)
	}
	if settled != 1 || replayed != 199 {
		t.Errorf("metrics count %g payments and %g replays", settled, replayed)
	}
}

// 300 requests at once for one key that somebody holds do not starve other keys.
func TestCrowdOnOneHeldKey(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := open(t, dsn)
	r := start(t, dsn, map[string]string{"LOCK_WAIT": "7s", "PROCESSOR_TIMEOUT": "1s"})
	holder, err := db.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = holder.ExecContext(t.Context(), `INSERT INTO payments.idempotency_records
		(key, status, request_fingerprint, fingerprint_version, expires_at)
		VALUES ('held', 'PROCESSING', decode(repeat('00', 32), 'hex'), 'x', clock_timestamp() + interval '1h')`)
	if err != nil {
		t.Fatal(err)
	}
	crowd := make([]answer, 300)
	served := make(chan struct{})
	go func() {
		defer close(served)
		apptest.Together(len(crowd), func(i int) { crowd[i] = r.pay(t, "held", body(1, goodCard)) })
	}()
	apptest.WaitUntil(t, "the crowd is there", func() bool {
		var blocked int
		err := db.db.GetContext(t.Context(), &blocked, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`)
		return err == nil && blocked > 0
	})
	for i := range 5 {
		r.pay(t, fmt.Sprint("other-", i), body(2, goodCard)).want(t, 201, "SUCCEEDED")
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	<-served
	for _, a := range crowd {
		if a.want(t, 201, "SUCCEEDED").Body != crowd[0].Body {
			t.Errorf("two answers to one key:\n%s\n%s", a, crowd[0])
		}
	}
	db.counts(t, 6, 6, 6)
	waits := r.Metric(t, `rowlock_lock_wait_seconds_count{lock="key",where="process"}`)
	if waits == r.Metric(t, `rowlock_lock_wait_seconds_bucket{lock="key",where="process",le="0.005"}`) {
		t.Errorf("none of %g was counted as waiting", waits)
	}
}

// Holders that fail one after the other make whoever waits wait for each of them:
// LOCK_WAIT bounds all of it together.
func TestWaitBehindManyHolders(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	rs := startAll(t, dsn, 5, map[string]string{"PROCESSOR_LATENCY": "700ms", "LOCK_WAIT": "1s"})
	answers := make([]answer, len(rs))
	apptest.Together(len(rs), func(i int) { answers[i] = rs[i].pay(t, "k", body(1, faultCard)) })
	processing := 0
	for _, a := range answers {
		switch a.Status {
		case 409:
			a.want(t, 409, "PAYMENT_PROCESSING")
			processing++
		default:
			a.want(t, 502, "PROCESSOR_ERROR")
		}
	}
	// Each holder takes 0.7 s, so two come to their turn within a second.
	if processing < 2 {
		t.Errorf("%d of %d were told to come back, the others waited longer than LOCK_WAIT", processing, len(rs))
	}
}

// Behind a pooler with two connections to the server: payments hold both, and the
// processor charges by another way, so that they do not wait for each other.
func TestPoolerSmallerThanTheCrowd(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	pooled := dbtest.PgBouncer(t, dsn, 2)
	const warning = "PROCESSOR_DATABASE_URL is not set"
	r := start(t, pooled, map[string]string{
		"DB_POOLER": "transaction", "MIGRATE_DATABASE_URL": dsn, "PROCESSOR_DATABASE_URL": dsn + "&binary_parameters=yes",
	})
	const crowd = 40
	apptest.Together(crowd, func(i int) { r.pay(t, fmt.Sprint("k", i), body(1, goodCard)).want(t, 201, "SUCCEEDED") })
	open(t, dsn).counts(t, crowd, crowd, crowd)
	if strings.Contains(r.Log.String(), warning) {
		t.Error("it warns of one pool though there are two")
	}
	one := start(t, pooled, map[string]string{"DB_POOLER": "transaction", "MIGRATE_DATABASE_URL": dsn})
	if !strings.Contains(one.Log.String(), warning) {
		t.Error("it does not warn that payments and charges share a pool")
	}
}
