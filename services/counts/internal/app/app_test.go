package app_test

import (
	"os"
	"strings"
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

func TestInternalListenerOfItsOwn(t *testing.T) {
	t.Parallel()
	own := map[string]string{"INTERNAL_HTTP_ADDR": "127.0.0.1:0"}
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), own)
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

	guarded, issuer := apptest.RunGuarded(t, app.Service(), dbtest.Postgres(t, postgres.Migrations()), own)
	for subject, want := range map[string]int{"read": 403, "change": 403, "administer": 404} {
		if a := apptest.Send(t, "GET", guarded.Internal+internalCounts+"/a", "", issuer.Header(subject)); a.Status != want {
			t.Errorf("one who may %s: %s, want %d", subject, a, want)
		}
	}
}

// Two cleaners delete the expired keys, in several batches, and keep the others.
func TestCleanup(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := dbtest.Dial(t, dsn)
	apptest.Execute(t, db, `INSERT INTO counts.idempotency_keys (key, fingerprint, answer, expires_at)
		SELECT 'old' || i, ''::bytea, '{}'::json, now() - i % 2 * interval '1ms' FROM generate_series(1, 6500) i
		 UNION ALL SELECT 'none' || i, '', '{}', '-infinity' FROM generate_series(1, 10) i
		 UNION ALL SELECT 'live' || i, '', '{}', now() + interval '1h' FROM generate_series(1, 7) i`)
	interval := map[string]string{"CLEANUP_INTERVAL": "20ms"}
	rs := []*apptest.Replica{start(t, dsn, interval), start(t, dsn, interval)}
	waittest.Eventually(t, "both replicas have cleaned up", func() bool {
		const series = `counts_cleanup_deleted_total{table="keys"}`
		return rs[0].Metric(t, series)+rs[1].Metric(t, series) == 6510
	})
	if left := apptest.One[int](t, db, `SELECT count(*) FROM counts.idempotency_keys`); left != 7 {
		t.Errorf("%d are left, want 7", left)
	}
}
