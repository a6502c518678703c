package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/events/internal/app"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// replica is a running replica or worker.
type replica struct {
	*apptest.Replica

	api string // "" for a worker
}

func quick() map[string]string {
	return map[string]string{
		"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
	}
}

// serve runs a replica on dsn until the test ends or Stop is called.
func serve(t *testing.T, dsn string, environ ...map[string]string) *replica {
	t.Helper()
	r := apptest.Run(t, app.Service(), dsn, append(environ, quick())...)
	return &replica{r, r.API}
}

// work runs a worker on dsn.
func work(t *testing.T, dsn string, environ ...map[string]string) *replica {
	t.Helper()
	r := apptest.Run(t, app.Worker(), dsn, append(environ, quick())...)
	if r.API != "" {
		t.Error("a worker serves an API")
	}
	return &replica{r, ""}
}

// onBoth runs a test on both engines; open makes a migrated database, or an empty one.
func onBoth(t *testing.T, test func(t *testing.T, open func(empty bool) string)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, func(empty bool) string {
			if empty {
				return dbtest.Empty(t)
			}
			return dbtest.Postgres(t, postgres.Migrations())
		})
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		test(t, func(empty bool) string {
			if empty {
				return dbtest.EmptyMariaDB(t)
			}
			return dbtest.MariaDB(t, mysql.Migrations())
		})
	})
}

type body struct {
	ID    int64
	Value *string
}

func decode(t *testing.T, a apptest.Answer) (b body) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.Body), &b); err != nil {
		t.Errorf("%s: %v", a, err)
	}
	return b
}

func post(t *testing.T, url string) apptest.Answer {
	t.Helper()
	return apptest.Send(t, http.MethodPost, url, "", nil)
}

// TestLife runs the source's flow: an event with a value, a pending one, a worker that gives it one. The first replica
// that starts migrates the schema. httpapi tests the answers.
func TestLife(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(bool) string) {
		t.Helper()
		dsn := open(true)
		r := serve(t, dsn)
		created := decode(t, post(t, r.api+"/events"))
		if created.ID != 1 || created.Value == nil || *created.Value == "" {
			t.Errorf("created %+v", created)
		}
		if pending := decode(t, post(t, r.api+"/events/async")); pending.ID != 2 {
			t.Errorf("enqueued %+v", pending)
		}

		w := work(t, dsn)
		waittest.Eventually(t, "the event has its value", func() bool {
			return decode(t, apptest.Get(t, r.api+"/events/2")).Value != nil
		})
		if b := decode(t, apptest.Get(t, r.api+"/events/1")); b.Value == nil || *b.Value != *created.Value {
			t.Errorf("event 1 has changed: %+v", b)
		}
		for series, want := range map[string]float64{"events_worked_total": 1, "events_claimed_batch_size_sum": 1} {
			if got := w.Metric(t, series); got != want {
				t.Errorf("the worker's %s is %g, want %g", series, got, want)
			}
		}
		if n := r.Metric(t, `rowlock_lock_wait_seconds_count{lock="id",where="database"}`); n != 2 {
			t.Errorf("%g waits for the row of status", n)
		}
	})
}
