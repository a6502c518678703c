package app_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const (
	counts         = "/api/v1/counts/"
	internalCounts = "/api/v1/internal/counts"
)

// start runs a replica on dsn until the test ends or Stop is called.
func start(t *testing.T, dsn string, environs ...map[string]string) *apptest.Replica {
	t.Helper()
	return apptest.Run(t, app.Service(), dsn, append(environs, map[string]string{
		"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
	})...)
}

// want sends a request and compares status and a part of the answer.
func want(t *testing.T, method, url, body string, status int, part string) {
	t.Helper()
	if a := apptest.Send(t, method, url, body, apptest.JSON()); a.Status != status || !strings.Contains(a.Body, part) {
		t.Errorf("%s %s: %s, want %d %s", method, url, a, status, part)
	}
}

// The acceptance tests of the source, in its order.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	api := start(t, dbtest.Postgres(t, postgres.Migrations())).API
	want(t, "POST", api+internalCounts, `{"itemId":"A","initialValue":5}`, 201, `"currentValue":5`)
	want(t, "POST", api+internalCounts, `{"itemId":"A"}`, 409, "COUNT_EXISTS")
	want(t, "POST", api+counts+"A/increase", `{"amount":3}`, 200, `"value":8`)
	want(t, "POST", api+counts+"ghost/increase", "", 404, "COUNT_NOT_FOUND")
	want(t, "POST", api+counts+"A/decrease", `{"amount":2}`, 200, `"value":6`)
	want(t, "POST", api+internalCounts, `{"itemId":"B"}`, 201, `"currentValue":0`)
	want(t, "POST", api+counts+"ghost/decrease", "", 404, "COUNT_NOT_FOUND")
	want(t, "POST", api+counts+"ghost/reset", "", 404, "COUNT_NOT_FOUND")
	want(t, "GET", api+internalCounts+"?itemIds=A&itemIds=B", "", 200, `[{"itemId":"A","currentValue":6,`)
	want(t, "GET", api+internalCounts+"?itemIds=A&itemIds=B", "", 200, `{"itemId":"B","currentValue":0,`)
	want(t, "POST", api+counts+"A/reset", "", 200, `"value":0`)
	want(t, "DELETE", api+internalCounts+"/A", "", 204, "")
	want(t, "GET", api+internalCounts+"/A", "", 404, "COUNT_NOT_FOUND")
}

func TestInternalListenerOfItsOwn(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), map[string]string{"INTERNAL_HTTP_ADDR": "127.0.0.1:0"})
	want(t, "POST", r.Internal+internalCounts, `{"itemId":"a"}`, 201, "")
	want(t, "GET", r.API+internalCounts+"/a", "", 404, "NOT_FOUND")
	want(t, "GET", r.API+internalCounts+"?itemIds=a", "", 404, "NOT_FOUND")
	want(t, "GET", r.API+internalCounts+"?prefix=", "", 404, "NOT_FOUND")
	want(t, "GET", r.Internal+internalCounts+"?prefix=", "", 200, `[{"itemId":"a","currentValue":0,`)
	const batch = `{"changes":[{"itemId":"a","amount":-1}]}`
	want(t, "POST", r.Internal+"/api/v1/counts", batch, 404, "NOT_FOUND")
	want(t, "POST", r.API+"/api/v1/counts", batch, 200, `{"values":[{"itemId":"a","value":-1}]}`)
	want(t, "POST", r.Internal+counts+"a/increase", "", 404, "NOT_FOUND")
	want(t, "POST", r.API+counts+"a/increase", "", 200, `"value":0`)
}

// A key holds through every replica, and the replica that answers it counts it.
func TestKeysThroughTwoReplicas(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	a, b := start(t, dsn), start(t, dsn)
	want(t, "POST", a.API+internalCounts, `{"itemId":"a"}`, 201, "")
	send := func(r *apptest.Replica, body string) apptest.Answer {
		header := apptest.JSON()
		header["Idempotency-Key"] = "k"
		return apptest.Send(t, "POST", r.API+counts+"a/increase", body, header)
	}
	first, again, other := send(a, `{"amount":5}`), send(b, `{"amount": 5}`), send(b, `{"amount":6}`)
	if first.Status != 200 || again.Status != 200 || again.Body != first.Body ||
		other.Code != "IDEMPOTENCY_KEY_CONFLICT" ||
		first.Header.Get("Idempotent-Replayed") != "" || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %s, %s and %s", first, again, other)
	}
	for _, metric := range []string{"counts_replays_total", "counts_conflicts_total"} {
		if r1, r2 := a.Metric(t, metric), b.Metric(t, metric); r1 != 0 || r2 != 1 {
			t.Errorf("%s is %g and %g, want 0 and 1", metric, r1, r2)
		}
	}
	want(t, "GET", a.API+internalCounts+"/a", "", 200, `"currentValue":5,`)
}

// The context ends, as by SIGTERM, in the middle of the load: a request that was accepted gets a true answer, and the
// count is exactly what was acknowledged.
func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, witness := start(t, dsn), start(t, dsn)
	want(t, "POST", witness.API+internalCounts, `{"itemId":"a"}`, 201, "")
	var acknowledged atomic.Int64
	var done sync.WaitGroup
	enough := make(chan struct{})
	for range 20 {
		done.Go(func() {
			for {
				a := apptest.Send(t, http.MethodPost, r.API+counts+"a/increase", "", nil)
				if a.Status == 0 {
					return // the listener is closed; the sum would show a change that was applied
				}
				if a.Status != http.StatusOK {
					t.Error(a)
					return
				}
				if acknowledged.Add(1) == 200 {
					close(enough)
				}
			}
		})
	}
	<-enough
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	done.Wait()
	want(t, "GET", witness.API+internalCounts+"/a", "", 200, fmt.Sprintf(`"currentValue":%d,`, acknowledged.Load()))
}

// Two cleaners delete the expired keys, in several batches, and keep the others.
func TestCleanup(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := dbtest.Dial(t, dsn)
	fill := func(prefix string, rows int, expires string) {
		apptest.Execute(t, db, fmt.Sprintf(`INSERT INTO counts.idempotency_keys (key, fingerprint, answer, expires_at)
			SELECT '%s' || i, '', '{}', %s FROM generate_series(1, %d) i`, prefix, expires, rows))
	}
	fill("old", 4000, "now() - i * interval '1ms'")
	fill("same", 2500, "now()")
	fill("none", 10, "'-infinity'")
	fill("live", 7, "now() + interval '1h'")
	interval := map[string]string{"CLEANUP_INTERVAL": "20ms"}
	rs := []*apptest.Replica{start(t, dsn, interval), start(t, dsn, interval)}
	waittest.Eventually(t, "both replicas have cleaned up", func() bool {
		const series = `counts_cleanup_deleted_total{table="keys"}`
		return rs[0].Metric(t, series)+rs[1].Metric(t, series) == 6510
	})
	var left int
	err := db.GetContext(t.Context(), &left, `SELECT count(*) FROM counts.idempotency_keys`)
	if err != nil || left != 7 {
		t.Errorf("%d are left (%v), want 7", left, err)
	}
}
