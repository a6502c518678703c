package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// replica is one running App.
type replica struct {
	*apptest.Replica

	api, internal string
}

// start runs a replica on dsn until the test ends or Stop is called.
func start(t *testing.T, dsn string, environ map[string]string) *replica {
	t.Helper()
	cfg := apptest.Config[app.Config](t, dsn, map[string]string{
		"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
	}, environ)
	var log apptest.Log
	a, err := app.New(t.Context(), cfg, app.Process{Environ: environ, Output: &log})
	if err != nil {
		t.Fatal(err)
	}
	r := apptest.Start(t, a, &log)
	return &replica{r, "http://" + a.Addr().String(), "http://" + a.InternalAddr().String()}
}

// call sends a request and returns status and body; 0 when nobody answered.
func call(t *testing.T, method, target, body string) (status int, answer string) {
	t.Helper()
	var header map[string]string
	if body != "" {
		header = apptest.JSON()
	}
	a := apptest.Send(t, method, target, body, header)
	return a.Status, a.Body
}

const (
	counts         = "/api/v1/counts/"
	internalCounts = "/api/v1/internal/counts"
)

func (r *replica) create(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if status, body := call(t, http.MethodPost, r.internal+internalCounts, `{"itemId":"`+id+`"}`); status != http.StatusCreated {
			t.Fatalf("create %s: %d %s", id, status, body)
		}
	}
}

func (r *replica) value(t *testing.T, id string) int64 {
	t.Helper()
	status, body := call(t, http.MethodGet, r.internal+internalCounts+"/"+id, "")
	var v struct {
		CurrentValue int64 `json:"currentValue"`
	}
	if err := json.Unmarshal([]byte(body), &v); status != http.StatusOK || err != nil {
		t.Fatalf("read %s: %d %s", id, status, body)
	}
	return v.CurrentValue
}

// The acceptance tests of the source, in its order.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	step := func(method, path, body string, status int, want string) {
		t.Helper()
		got, answer := call(t, method, r.api+path, body)
		if got != status || !strings.Contains(answer, want) {
			t.Errorf("%s %s: %d %s, want %d %s", method, path, got, answer, status, want)
		}
	}
	step("POST", internalCounts, `{"itemId":"A","initialValue":5}`, 201, `"currentValue":5`)
	step("POST", internalCounts, `{"itemId":"A"}`, 409, "COUNT_EXISTS")
	step("POST", counts+"A/increase", `{"amount":3}`, 200, `"value":8`)
	step("POST", counts+"ghost/increase", "", 404, "COUNT_NOT_FOUND")
	step("POST", counts+"A/decrease", `{"amount":2}`, 200, `"value":6`)
	step("POST", internalCounts, `{"itemId":"B"}`, 201, `"currentValue":0`)
	step("POST", counts+"ghost/decrease", "", 404, "COUNT_NOT_FOUND")
	step("POST", counts+"ghost/reset", "", 404, "COUNT_NOT_FOUND")
	step("GET", internalCounts+"?itemIds=A&itemIds=B", "", 200, `[{"itemId":"A","currentValue":6,`)
	step("GET", internalCounts+"?itemIds=A&itemIds=B", "", 200, `{"itemId":"B","currentValue":0,`)
	step("POST", counts+"A/reset", "", 200, `"value":0`)
	step("DELETE", internalCounts+"/A", "", 204, "")
	step("GET", internalCounts+"/A", "", 404, "COUNT_NOT_FOUND")
	step("GET", "/openapi.yaml", "", 200, "openapi: 3")
	step("GET", "/docs", "", 200, "<html")
}

// 100 concurrent increases are exactly +100 and 100 different consecutive
// answers, through one replica and over three.
func TestHundredConcurrentIncreases(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			var rs []*replica
			for range replicas {
				rs = append(rs, start(t, dsn, nil))
			}
			rs[0].create(t, "hot")
			values := make([]int64, 100)
			apptest.Together(len(values), func(i int) {
				status, body := call(t, http.MethodPost, rs[i%replicas].api+counts+"hot/increase", "")
				var v struct {
					Value int64 `json:"value"`
				}
				if err := json.Unmarshal([]byte(body), &v); status != http.StatusOK || err != nil {
					t.Errorf("%d %s", status, body)
				}
				values[i] = v.Value
			})
			slices.Sort(values)
			for i, v := range values {
				if v != int64(i+1) {
					t.Fatalf("answer %d stands where %d should", v, i+1)
				}
			}
			if got := rs[0].value(t, "hot"); got != 100 {
				t.Errorf("the count is %d, want 100", got)
			}
		})
	}
}

// Bad requests beside good ones of the same batch: each gets its own answer.
func TestBadInputDoesNotHurtTheBatch(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	r.create(t, "good", "edge")
	if status, body := call(t, "PUT", r.internal+internalCounts+"/edge", `{"value":9223372036854775807}`); status != 200 {
		t.Fatal(body)
	}
	bad := []struct {
		path, body string
		status     int
		code       string
	}{
		{"good", `{"amount":0}`, 400, "INVALID_FIELD"},
		{"good", `{"amount":-5}`, 400, "INVALID_FIELD"},
		{"good", `{"amount":1.5}`, 400, "INVALID_FIELD"},
		{"good", `{"amount":9223372036854775808}`, 400, "INVALID_FIELD"},
		{"good", `{"amount":"1"}`, 400, "INVALID_FIELD"},
		{"good", `{"step":1}`, 400, "INVALID_FIELD"},
		{"good", `{"amount":1,"amount":2}`, 400, "INVALID_FIELD"},
		{"good", `{"amount":1` + strings.Repeat(" ", 10<<20) + `}`, 413, "BODY_TOO_LARGE"},
		{"%00", "", 400, "INVALID_FIELD"},
		{"%ff", "", 400, "INVALID_FIELD"},
		{"ghost", "", 404, "COUNT_NOT_FOUND"},
		{"edge", "", 422, "COUNT_OVERFLOW"},
		{"edge", `{"amount":9223372036854775807}`, 422, "COUNT_OVERFLOW"},
	}
	const good = 100
	apptest.Together(good+len(bad), func(i int) {
		if i < good {
			if status, body := call(t, "POST", r.api+counts+"good/increase", ""); status != 200 {
				t.Errorf("good: %d %s", status, body)
			}
			return
		}
		b := bad[i-good]
		status, body := call(t, "POST", r.api+counts+b.path+"/increase", b.body)
		// A server that refuses a body may close before the client has sent it all.
		if cut := b.status == 413 && status == 0; !cut && (status != b.status || !strings.Contains(body, b.code)) {
			t.Errorf("%s %.40s: %d %.200s, want %d %s", b.path, b.body, status, body, b.status, b.code)
		}
	})
	if got := r.value(t, "good"); got != good {
		t.Errorf("good is %d, want %d", got, good)
	}
	if got := r.value(t, "edge"); got != 9223372036854775807 {
		t.Errorf("edge is %d", got)
	}
}

func TestInternalListenerOfItsOwn(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), map[string]string{"INTERNAL_HTTP_ADDR": "127.0.0.1:0"})
	if r.api == r.internal {
		t.Fatal("one address serves both")
	}
	r.create(t, "a")
	if status, body := call(t, "GET", r.api+internalCounts+"/a", ""); status != 404 || !strings.Contains(body, "NOT_FOUND") {
		t.Errorf("the external listener serves the internal API: %d %s", status, body)
	}
	if status, body := call(t, "POST", r.internal+counts+"a/increase", ""); status != 404 {
		t.Errorf("the internal listener serves the external API: %d %s", status, body)
	}
	if status, body := call(t, "POST", r.api+counts+"a/increase", ""); status != 200 {
		t.Errorf("increase: %d %s", status, body)
	}
}

// SIGTERM (here: the end of the context) in the middle of the load: whoever was
// let in gets a true answer, and the count is exactly what was acknowledged.
func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, witness := start(t, dsn, nil), start(t, dsn, nil)
	witness.create(t, "a")
	var mu sync.Mutex
	var acknowledged int64
	var done sync.WaitGroup
	enough := make(chan struct{})
	var once sync.Once
	for range 20 {
		done.Go(func() {
			for {
				status, body := call(t, "POST", r.api+counts+"a/increase", "")
				switch status {
				case 200:
					mu.Lock()
					acknowledged++
					if acknowledged == 200 {
						once.Do(func() { close(enough) })
					}
					mu.Unlock()
				case 0:
					return // the listener is closed; had this one been applied, the sum would tell
				default:
					t.Errorf("%d %s", status, body)
					return
				}
			}
		})
	}
	<-enough
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	done.Wait()
	if got := witness.value(t, "a"); got != acknowledged {
		t.Errorf("the count is %d, %d were acknowledged", got, acknowledged)
	}
}

func TestProbesAndMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	r.create(t, "a")
	if status, _ := call(t, "POST", r.api+counts+"a/increase", ""); status != 200 {
		t.Fatal(status)
	}
	if status, _ := call(t, "GET", r.Admin+"/livez", ""); status != 200 {
		t.Errorf("livez: %d", status)
	}
	_, metrics := call(t, "GET", r.Admin+"/metrics", "")
	for _, want := range []string{
		`http_server_request_duration_seconds_count{`, `route="/api/v1/counts/{itemId}/increase"`,
		`rowlock_coalesce_batch_size_count{coalescer="counts_add"}`, `rowlock_build_info`, `go_goroutines`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(metrics, `counts/a/`) {
		t.Error("/metrics holds a raw path")
	}
}

func TestStartRefusesInOneSentence(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	for name, env := range map[string]map[string]string{
		"no database":                  {"DATABASE_URL": ""},
		"pooler without its flag":      {"DB_POOLER": "transaction"},
		"timeouts do not grow":         {"DB_LOCK_TIMEOUT": "9s"},
		"bad internal address":         {"INTERNAL_HTTP_ADDR": "nonsense"},
		"groups take every connection": {"COALESCE_IN_FLIGHT": "3", "DB_MAX_OPEN_CONNS": "4"},
		"no sslmode":                   {"DATABASE_URL": strings.ReplaceAll(dsn, "?sslmode=disable", "")},
	} {
		full := map[string]string{"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0"}
		maps.Copy(full, env)
		var cfg app.Config
		err := config.Load(&cfg, full)
		if err == nil {
			_, err = app.New(t.Context(), cfg, app.Process{Output: io.Discard})
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error holds the password", name)
		}
	}
}

func TestStartRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	apptest.Execute(t, apptest.Open(t, dsn), `INSERT INTO counts.goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	for _, onStart := range []string{"true", "false"} {
		cfg := apptest.Config[app.Config](t, dsn, map[string]string{"MIGRATE_ON_START": onStart})
		a, err := app.New(t.Context(), cfg, app.Process{Output: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(t.Context()); err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "newer") {
			t.Errorf("MIGRATE_ON_START=%s: %v", onStart, err)
		}
	}
}
