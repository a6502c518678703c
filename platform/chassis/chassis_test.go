package chassis_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

var errCheck = errors.New("two status rows where one should be")

func migrations() migrate.Source {
	const script = "-- +goose Up\nCREATE TABLE probe.probe (id int);\n-- +goose Down\nDROP TABLE probe.probe;\n"
	return migrate.Source{Schema: "probe", FS: fstest.MapFS{"migrations/00001_probe.sql": {Data: []byte(script)}}}
}

// settings are a service's, on dsn, with free ports.
func settings(t *testing.T, dsn string, more map[string]string) chassis.Settings {
	t.Helper()
	env := map[string]string{"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0"}
	maps.Copy(env, more)
	var common config.Common
	if err := config.Load(&common, env); err != nil {
		t.Fatal(err)
	}
	return chassis.Settings{
		Name: "probe", Config: &common, Common: common, Output: io.Discard, Migrations: migrations(),
		Lock: contention.Settings{Lock: "row"},
	}
}

// running is a chassis whose Run goes on in the background.
type running struct {
	*chassis.Chassis

	stop func() error
}

func run(t *testing.T, s chassis.Settings, prepare func(*chassis.Chassis), own ...lifecycle.Part) *running {
	t.Helper()
	c, err := chassis.New(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(c)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	c.Add(own...)
	go func() { ended <- c.Run(ctx) }()
	r := &running{Chassis: c, stop: sync.OnceValue(func() error { cancel(); return <-ended })}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return r
}

// get returns the status of an admin page; 0 when nobody answers.
func (r *running) get(t *testing.T, path string) int {
	t.Helper()
	if r.AdminAddr() == nil {
		return 0
	}
	return get(t, "http://"+r.AdminAddr().String()+path)
}

// get returns the status of a page; 0 when nobody answers.
func get(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return 0
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

// A service may start before its database: it is alive, not ready, and goes on
// when the database comes.
func TestDatabaseThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	proxy := faultproxy.New(t, dsn)
	proxy.Refuse()
	r := run(t, settings(t, proxy.DSN(dsn), nil), nil)
	waittest.Eventually(t, "alive", func() bool { return r.get(t, "/livez") == http.StatusOK })
	if got := r.get(t, "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("readyz is %d while the database is away", got)
	}
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "ready", func() bool { return r.get(t, "/readyz") == http.StatusOK })
	var tables int
	if err := r.DB().GetContext(t.Context(), &tables, `SELECT count(*) FROM probe.probe`); err != nil {
		t.Errorf("not migrated: %v", err)
	}
}

func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(s *chassis.Settings)
		want  string
	}{
		"wrong password": {func(s *chassis.Settings) {
			s.Common.DatabaseURL = strings.Replace(s.Common.DatabaseURL, "@", "wrong@", 1)
		}, "password"},
		"unknown database": {func(s *chassis.Settings) {
			s.Common.DatabaseURL = strings.Replace(s.Common.DatabaseURL, "/rowlock_test", "/ghost_test", 1)
		}, "does not exist"},
		"no TLS on the server": {func(s *chassis.Settings) {
			s.Common.DatabaseURL = strings.Replace(s.Common.DatabaseURL, "sslmode=disable", "sslmode=require", 1)
		}, "waiting would not change that"},
		"no TLS on the migrations' way": {func(s *chassis.Settings) {
			s.Common.MigrateDatabaseURL = strings.Replace(s.Common.DatabaseURL, "sslmode=disable", "sslmode=require", 1)
		}, "SSL is not enabled"},
		"pending migrations": {func(s *chassis.Settings) { s.Common.MigrateOnStart = false }, "older"},
		"the service's own check": {func(s *chassis.Settings) {
			s.Check = func(context.Context, *sqldb.DB) error { return errCheck }
		}, errCheck.Error()},
		"address in use": {func(s *chassis.Settings) { s.Common.AdminAddr = "203.0.113.1:1" }, "203.0.113.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings(t, dbtest.Empty(t), nil)
			tc.spoil(&s)
			c, err := chassis.New(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			begin := time.Now()
			if err := c.Run(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			wantClosed(t, c)
		})
	}
}

// wantClosed checks that nothing of the pool is left.
func wantClosed(t *testing.T, c *chassis.Chassis) {
	t.Helper()
	if err := c.DB().Ping(context.WithoutCancel(t.Context())); err == nil || !strings.Contains(err.Error(), "database is closed") {
		t.Errorf("the pool is not closed: a ping says %v", err)
	}
	if n := c.DB().Stats().OpenConnections; n != 0 {
		t.Errorf("%d connections are open", n)
	}
}

// One listener cannot be bound: those that were are given back at once, without
// the delay of a drain.
func TestListenersAreBoundTogether(t *testing.T) {
	t.Parallel()
	c, err := chassis.New(t.Context(), settings(t, dbtest.Empty(t), map[string]string{"SHUTDOWN_DELAY": "15s"}))
	if err != nil {
		t.Fatal(err)
	}
	api, err := c.Listen("api", "127.0.0.1:0", httpserver.Docs{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Listen("internal", "203.0.113.1:1", httpserver.Docs{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err = c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "203.0.113.1") {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if api.Addr() == nil {
		t.Fatal("the first listener was never bound")
	}
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", api.Addr().String()); err == nil {
		t.Errorf("the first listener is still bound; %v", conn.Close())
	}
	wantClosed(t, c)
}

func TestNewRefusesBadSettings(t *testing.T) {
	t.Parallel()
	s := settings(t, dbtest.Empty(t), nil)
	s.Common.DBPooler = "transaction" // without binary_parameters
	if _, err := chassis.New(t.Context(), s); err == nil {
		t.Error("a pooler without binary_parameters is accepted")
	}
	s = settings(t, dbtest.Empty(t), map[string]string{"LOG_LEVEL": "info"})
	s.Common.LogLevel = "loud"
	if _, err := chassis.New(t.Context(), s); err == nil {
		t.Error("a log level that does not exist is accepted")
	}
	s = settings(t, dbtest.Empty(t), nil)
	c, err := chassis.New(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Listen("api", ":0", httpserver.Docs{OpenAPI: []byte("\t: not yaml")}); err == nil {
		t.Error("a contract that is no YAML is accepted")
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The end: not ready first, the listeners drain together, the service's own part
// stops while the pool still works.
func TestOrderOfTheEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	note := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s)
	}
	var r *running
	own := lifecycle.Part{Name: "own", Stop: func(ctx context.Context) error {
		note("own part stops")
		var one int
		return r.DB().GetContext(ctx, &one, `SELECT 1`)
	}}
	entered, leave := make(chan struct{}), make(chan struct{})
	var api, internal *httpserver.Server
	r = run(t, settings(t, dbtest.Empty(t), map[string]string{"SHUTDOWN_DELAY": "300ms"}), func(c *chassis.Chassis) {
		var err error
		if api, err = c.Listen("api", "127.0.0.1:0", httpserver.Docs{}); err != nil {
			t.Fatal(err)
		}
		if internal, err = c.Listen("internal", "127.0.0.1:0", httpserver.Docs{}); err != nil {
			t.Fatal(err)
		}
		api.Echo().GET("/slow", func(c echo.Context) error {
			close(entered)
			<-leave
			note("request answered")
			return c.JSON(http.StatusOK, struct{}{})
		})
	}, own)
	waittest.Eventually(t, "ready", func() bool { return r.get(t, "/readyz") == http.StatusOK })
	if api.Addr().String() == internal.Addr().String() {
		t.Error("two listeners on one address")
	}
	answered := make(chan int, 1)
	go func() { answered <- get(t, "http://"+api.Addr().String()+"/slow") }()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	waittest.Eventually(t, "not ready", func() bool { return r.get(t, "/readyz") == http.StatusServiceUnavailable })
	if got := r.get(t, "/livez"); got != http.StatusOK {
		t.Errorf("livez is %d during the drain", got)
	}
	close(leave)
	if got := <-answered; got != http.StatusOK {
		t.Errorf("the request in flight got %d", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if want := "request answered, own part stops"; strings.Join(order, ", ") != want {
		t.Errorf("order %v, want %s", order, want)
	}
}

// serviceConfig is a service's configuration.
type serviceConfig struct{ config.Common }

func TestProgramMigrates(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	served := false
	p := chassis.OldService[serviceConfig]{
		Name: "probe", Summary: "a probe", Migrations: migrations(),
		Common: func(c *serviceConfig) config.Common { return c.Common },
		Serve: func(_ context.Context, cfg *serviceConfig, _ map[string]string) error {
			served = cfg.DatabaseURL == dsn
			return nil
		},
	}.Program()
	env := map[string]string{"DATABASE_URL": dsn, "LOG_LEVEL": "error"}
	var out, errs strings.Builder
	for _, args := range [][]string{{"migrate"}, {"migrate"}, {"serve"}, {}, {"version"}, {"--help"}} {
		if status := lifecycle.Main(p, args, env, &out, &errs); status != 0 {
			t.Fatalf("%v: status %d, %s", args, status, errs.String())
		}
	}
	if !served || !strings.Contains(out.String(), "DB_LOCK_TIMEOUT") {
		t.Errorf("served %v, printed %s", served, out.String())
	}
	if err := migrate.Verify(t.Context(), dsn, migrations()); err != nil {
		t.Error(err)
	}
	if status := lifecycle.Main(p, []string{"migrate"}, nil, &out, &errs); status != 1 || !strings.Contains(errs.String(), "DATABASE_URL") {
		t.Errorf("without a database: status %d, %s", status, errs.String())
	}
}
