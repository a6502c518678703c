package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/dbtest/mariaproxy"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/events/internal/app"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// replica is one running App.
type replica struct {
	*apptest.Replica

	api string // "" for a worker
}

func quick() map[string]string {
	return map[string]string{
		"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
	}
}

// serve runs a replica on dsn until the test ends or Stop is called; environ is for its tracing alone.
func serve(t *testing.T, dsn string, environ ...map[string]string) *replica {
	t.Helper()
	r := apptest.Run(t, app.Service(), dsn, append(environ, quick())...)
	return &replica{r, r.API}
}

// work runs a worker.
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
	Count int64
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

// The source's flow: sync, async, a worker that comes to it, count, read. The
// schema is made by the first that starts.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(bool) string) {
		t.Helper()
		dsn := open(true)
		r := serve(t, dsn)
		a := post(t, r.api+"/events")
		created := decode(t, a)
		if a.Status != 201 || created.ID != 1 || created.Value == nil || *created.Value == "" || a.Header.Get("Location") != "/events/1" {
			t.Errorf("POST /events: %s", a)
		}
		if a = post(t, r.api+"/events/async"); a.Status != 202 || a.Body != "{\"id\":2}\n" || a.Header.Get("Location") != "/events/2" {
			t.Errorf("POST /events/async: %s", a)
		}
		if a = apptest.Get(t, r.api+"/events/2"); a.Status != 200 || a.Body != "{\"id\":2,\"value\":null}\n" {
			t.Errorf("pending: %s", a)
		}
		if a = apptest.Get(t, r.api+"/events"); a.Body != "{\"count\":2}\n" {
			t.Errorf("count: %s", a)
		}
		w := work(t, dsn)
		waittest.Eventually(t, "the event has its value", func() bool { return decode(t, apptest.Get(t, r.api+"/events/2")).Value != nil })
		if b := decode(t, apptest.Get(t, r.api+"/events/1")); b.Value == nil || *b.Value != *created.Value {
			t.Errorf("event 1 was touched: %+v", b)
		}
		if n := w.Metric(t, "events_worked_total"); n != 1 {
			t.Errorf("the worker counts %g", n)
		}
		if n := w.Metric(t, `events_claimed_batch_size_sum`); n != 1 {
			t.Errorf("the batches sum up to %g", n)
		}
		if n := r.Metric(t, `rowlock_lock_wait_seconds_count{lock="id",where="database"}`); n != 2 {
			t.Errorf("%g waits for the row of status", n)
		}
		for path, status := range map[string]int{"/events/3": 404, "/events/0": 400, "/openapi.yaml": 200, "/docs": 200} {
			if a := apptest.Get(t, r.api+path); a.Status != status {
				t.Errorf("%s: %s", path, a)
			}
		}
	})
}

// Three replicas and two workers, both kinds at once: ids 1..n, and what was
// given is found at once, at any replica.
func TestManyClients(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(bool) string) {
		t.Helper()
		dsn := open(false)
		rs := []*replica{serve(t, dsn), serve(t, dsn), serve(t, dsn)}
		work(t, dsn)
		work(t, dsn)
		const clients, each = 50, 6
		var mu sync.Mutex
		var ids []int64
		if err := waittest.Together(clients, func(i int) error {
			for k := range each {
				path := []string{"/events", "/events/async"}[(i+k)%2]
				a := post(t, rs[i%3].api+path)
				b := decode(t, a)
				if a.Status/100 != 2 {
					return fmt.Errorf("%s: %s", path, a)
				}
				if found := apptest.Get(t, rs[(i+1)%3].api+a.Header.Get("Location")); found.Status != 200 {
					return fmt.Errorf("event %d at another replica: %s", b.ID, found)
				}
				mu.Lock()
				ids = append(ids, b.ID)
				mu.Unlock()
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		slices.Sort(ids)
		for i, id := range ids {
			if id != int64(i+1) {
				t.Fatalf("id %d stands where %d should", id, i+1)
			}
		}
		if n := decode(t, apptest.Get(t, rs[0].api+"/events")).Count; n != clients*each {
			t.Errorf("the count is %d", n)
		}
	})
}

// SIGTERM (here: the end of the context) in the middle of the load: whoever was
// let in gets a true answer, and the worker leaves nothing half done.
func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(bool) string) {
		t.Helper()
		dsn := open(false)
		r, witness, w := serve(t, dsn), serve(t, dsn), work(t, dsn)
		var acknowledged atomic.Int64
		var done sync.WaitGroup
		enough := make(chan struct{})
		for range 20 {
			done.Go(func() {
				for {
					switch a := post(t, r.api+"/events/async"); a.Status {
					case http.StatusAccepted:
						if acknowledged.Add(1) == 100 {
							close(enough)
						}
					case 0:
						return // the listener is closed; had this one been applied, the count would tell
					default:
						t.Errorf("%s", a)
						return
					}
				}
			})
		}
		<-enough
		waittest.Eventually(t, "the worker works", func() bool { return w.Metric(t, "events_worked_total") > 0 })
		if err := errors.Join(r.Stop(), w.Stop()); err != nil {
			t.Error(err)
		}
		done.Wait()
		if n := decode(t, apptest.Get(t, witness.api+"/events")).Count; n != acknowledged.Load() {
			t.Errorf("the count is %d, %d were acknowledged", n, acknowledged.Load())
		}
		if strings.Contains(w.Log.String(), "not worked") {
			t.Error("the worker broke a batch off")
		}
	})
}

// A reply to a group is lost: 500 OUTCOME_UNKNOWN, and not another one.
func TestAmbiguousOutcome(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, r *replica, direct string) {
		t.Helper()
		if a := post(t, r.api+"/events"); a.Status != 500 || a.Code != "OUTCOME_UNKNOWN" {
			t.Errorf("%s", a)
		}
		if a := post(t, r.api+"/events"); a.Status != 201 || decode(t, a).ID != 2 {
			t.Errorf("the next: %s", a)
		}
		if n := decode(t, apptest.Get(t, serve(t, direct).api+"/events")).Count; n != 2 {
			t.Errorf("the count is %d: a statement was sent twice", n)
		}
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		proxy := faultproxy.New(t, dsn)
		r := serve(t, proxy.DSN(dsn))
		proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("UPDATE events.status"))
		check(t, r, dsn)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		dsn := dbtest.MariaDB(t, mysql.Migrations())
		proxy := mariaproxy.New(t, dsn)
		r := serve(t, proxy.DSN(dsn))
		proxy.CutReply("COMMIT")
		check(t, r, dsn)
	})
}

// The database goes away: 503 at once, no 500, and the replica stays; the worker
// goes on when it is back.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		proxy := faultproxy.New(t, dsn)
		lostDatabase(t, proxy.DSN(dsn), func() error {
			proxy.Refuse()
			proxy.Drop(faultproxy.RST)
			return nil
		}, proxy.Accept)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		server, dsn := dbtest.MariaServer(t)
		lostDatabase(t, dsn, server.Kill, func() error { return server.Restart(t.Context()) })
	})
}

func lostDatabase(t *testing.T, dsn string, lose, restore func() error) {
	t.Helper()
	r, w := serve(t, dsn), work(t, dsn)
	if err := lose(); err != nil {
		t.Fatal(err)
	}
	for path, method := range map[string]string{"/events": "POST", "/events/async": "POST", "/events/1": "GET"} {
		if a := apptest.Send(t, method, r.api+path, "", nil); a.Status != 503 || a.Code != "DATABASE_UNAVAILABLE" ||
			a.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %s", method, path, a)
		}
	}
	if a := apptest.Get(t, r.Admin+"/livez"); a.Status != 200 {
		t.Errorf("livez: %s", a)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "it is back", func() bool { return post(t, r.api+"/events/async").Status == 202 })
	waittest.Eventually(t, "the worker goes on", func() bool { return w.Metric(t, "events_worked_total") > 0 })
}
