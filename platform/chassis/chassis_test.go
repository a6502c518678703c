package chassis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

var errCheck = errors.New("two status rows where one should be")

func migrations() migrate.Source {
	const script = "-- rowlock: compatible\n-- +goose Up\nCREATE TABLE probe.probe (id int);\n" +
		"-- +goose Down\nDROP TABLE probe.probe;\n"
	return migrate.Source{Schema: "probe", FS: fstest.MapFS{"migrations/00001_probe.sql": {Data: []byte(script)}}}
}

// probe is a service that does nothing but what a test adds.
type probe struct {
	chassis.Service[config.Common]

	settings chassis.Settings
	build    func(c *chassis.Chassis)
	cfg      config.Common
	environ  map[string]string
	output   io.Writer // of the log
}

// newProbe returns a service on dsn, with listeners on free ports.
func newProbe(t *testing.T, dsn string, more map[string]string) *probe {
	t.Helper()
	p := &probe{output: io.Discard, cfg: apptest.Config[config.Common](t, dsn, more)}
	p.settings = chassis.Settings{Migrations: migrations(), Lock: contention.Settings{Lock: "row"}}
	p.Service = chassis.Service[config.Common]{
		Name: "probe", Summary: "a probe",
		Settings: func(config.Common) chassis.Settings { return p.settings },
		Build: func(c *chassis.Chassis, _ config.Common) error {
			if p.build != nil {
				p.build(c)
			}
			return nil
		},
	}
	return p
}

// new builds a replica.
func (p *probe) new(t *testing.T) (*chassis.Chassis, error) {
	t.Helper()
	return p.New(t.Context(), p.cfg, chassis.Process{Output: p.output, Environ: p.environ})
}

// running is a chassis whose Run goes on in the background.
type running struct {
	*chassis.Chassis

	stop func() error
}

// run runs a replica until the test ends or stop is called.
func (p *probe) run(t *testing.T) *running {
	t.Helper()
	c, err := p.new(t)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	r := &running{Chassis: c, stop: sync.OnceValue(func() error { cancel(); return <-ended })}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return r
}

// get returns the status of an admin page; 0 when there is no answer.
func (r *running) get(t *testing.T, path string) int {
	t.Helper()
	return apptest.Get(t, fmt.Sprintf("http://%v%s", r.AdminAddr(), path)).Status
}

// A service may start before its database: it is alive, not ready, and goes on
// when the database comes.
func TestDatabaseThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	proxy := faultproxy.New(t, dsn)
	proxy.Refuse()
	r := newProbe(t, proxy.DSN(dsn), nil).run(t)
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

// A service that has no distribution would report outcomes that are not true on a cluster.
func TestAServiceWithoutADistributionRunsOnOnePrimary(t *testing.T) {
	t.Parallel()
	p := newProbe(t, dbtest.Empty(t), map[string]string{"DB_CLUSTER": "citus"})
	const want = "DB_CLUSTER=citus: probe runs on a single primary only; leave DB_CLUSTER unset and give probe a " +
		"separate primary (docs/scaling.md)"
	if _, err := p.new(t); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// The role of a replica need not be that of its migrations.
func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	_, roleDSN := dbtest.Role(t, dsn)
	p := newProbe(t, roleDSN, map[string]string{"MIGRATE_DATABASE_URL": dsn})
	p.settings.Migrations.Rights = []string{
		"USAGE ON SCHEMA probe", "SELECT, DELETE ON probe.probe", "TEMPORARY, CREATE ON DATABASE",
	}
	c, err := p.new(t)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const want = "DATABASE_URL: its role lacks rights: " +
		"GRANT USAGE ON SCHEMA probe; GRANT SELECT, DELETE ON probe.probe; GRANT CREATE ON DATABASE"
	if err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the start: %v, want %q", err, want)
	}
}

func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(p *probe)
		want  string
	}{
		"wrong password": {func(p *probe) {
			p.cfg.DatabaseURL = strings.Replace(p.cfg.DatabaseURL, "@", "wrong@", 1)
		}, "password"},
		"unknown database": {func(p *probe) {
			p.cfg.DatabaseURL = strings.Replace(p.cfg.DatabaseURL, "/rowlock_test", "/ghost_test", 1)
		}, "does not exist"},
		"no TLS on the server": {func(p *probe) {
			p.cfg.DatabaseURL = strings.Replace(p.cfg.DatabaseURL, "sslmode=disable", "sslmode=require", 1)
		}, "waiting would not change that"},
		"no TLS on the migrations' way": {func(p *probe) {
			p.cfg.MigrateDatabaseURL = strings.Replace(p.cfg.DatabaseURL, "sslmode=disable", "sslmode=require", 1)
		}, "SSL is not enabled"},
		"migrations that stay pending": {func(p *probe) {
			p.cfg.MigrateOnStart, p.cfg.MigrateTimeout = false, 200*time.Millisecond
		}, "older than this program; run the program's command migrate"},
		"the service's own check": {func(p *probe) {
			p.settings.Check = func(context.Context, *sqldb.DB) error { return errCheck }
		}, errCheck.Error()},
		"another session has the migrations' lock": {func(p *probe) {
			p.cfg.MigrateTimeout = 200 * time.Millisecond
			apptest.Hold(t, dbtest.Dial(t, p.cfg.DatabaseURL), `SELECT pg_advisory_xact_lock(
				('x' || left(encode(sha256('rowlock migrations of probe'), 'hex'), 16))::bit(64)::bigint)`)
		}, "held the migration lock"},
		"an admin address of another host": {func(p *probe) { p.cfg.AdminAddr = "203.0.113.1:1" }, "203.0.113.1"},
		"an API address of another host, at once": {func(p *probe) {
			p.cfg.ShutdownDelay = 15 * time.Second
			p.build = func(c *chassis.Chassis) {
				for name, addr := range map[string]string{"api": "127.0.0.1:0", "internal": "203.0.113.1:1"} {
					if _, err := c.AddListener(name, addr, httpserver.Docs{}); err != nil {
						t.Error(err)
					}
				}
			}
		}, "203.0.113.1"},
		"another encoding": {func(p *probe) { p.cfg.DatabaseURL = dbtest.Encoded(t, "LATIN1") }, "stores text as LATIN1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProbe(t, dbtest.Empty(t), nil)
			tc.spoil(p)
			c, err := p.new(t)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := c.Run(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			wantClosed(t, c)
		})
	}
}

// A replica that does not migrate is alive and not ready until another process has, and says once that it waits. A
// connection that breaks meanwhile does not end the wait.
func TestAReplicaWaitsForTheSchema(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	proxy := faultproxy.New(t, dsn)
	p := newProbe(t, proxy.DSN(dsn), map[string]string{"MIGRATE_ON_START": "false"})
	var log waittest.Log
	p.output = &log
	r := p.run(t)
	waittest.Eventually(t, "alive", func() bool { return r.get(t, "/livez") == http.StatusOK })
	other := dbtest.Dial(t, dsn)
	waittest.Eventually(t, "it has looked several times", func() bool {
		var sessions int // of all time; each look is one
		const query = `SELECT sessions FROM pg_stat_database WHERE datname = current_database()`
		return other.GetContext(t.Context(), &sessions, query) == nil && sessions > 5
	})
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("goose_db_version"))
	waittest.Eventually(t, "a look is cut off", func() bool { return proxy.Cuts() == 1 })
	if got := r.get(t, "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("readyz is %d without a schema", got)
	}
	if err := migrate.Up(t.Context(), dsn, migrations(), time.Minute, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "ready", func() bool { return r.get(t, "/readyz") == http.StatusOK })
	if n := strings.Count(log.String(), "waiting until it is migrated"); n != 1 {
		t.Errorf("it is said %d times that the schema is waited for", n)
	}
}

// wantClosed checks that nothing of the pool is left.
func wantClosed(t *testing.T, c *chassis.Chassis) {
	t.Helper()
	err := c.DB().Ping(context.WithoutCancel(t.Context()))
	if err == nil || !strings.Contains(err.Error(), "database is closed") {
		t.Errorf("the pool is not closed: a ping says %v", err)
	}
	if n := c.DB().Stats().OpenConnections; n != 0 {
		t.Errorf("%d connections are open", n)
	}
}

func TestListenersHaveTheConfiguredConnectionAge(t *testing.T) {
	t.Parallel()
	p := newProbe(t, dbtest.Empty(t), nil)
	p.build, p.cfg.MaxConnectionAge = answersOn(t, "api"), time.Nanosecond
	r := p.run(t)
	waittest.Eventually(t, "ready", func() bool { return r.get(t, "/readyz") == http.StatusOK })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.Addr("api").String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it was read
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: probe\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !answer.Close {
		t.Errorf("%s leaves an old connection open", answer.Status)
	}
	if err := answer.Body.Close(); err != nil {
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
	p := newProbe(t, dbtest.Empty(t), map[string]string{"SHUTDOWN_DELAY": "300ms"})
	p.build = func(c *chassis.Chassis) {
		c.Add(own)
		var err error
		if api, err = c.AddListener("api", "127.0.0.1:0", httpserver.Docs{}); err != nil {
			t.Fatal(err)
		}
		if internal, err = c.AddListener("internal", "127.0.0.1:0", httpserver.Docs{}); err != nil {
			t.Fatal(err)
		}
		api.Echo().GET("/slow", func(c echo.Context) error {
			close(entered)
			<-leave
			note("request answered")
			return c.JSON(http.StatusOK, struct{}{})
		})
	}
	r = p.run(t)
	waittest.Eventually(t, "ready", func() bool { return r.get(t, "/readyz") == http.StatusOK })
	if api.Addr().String() == internal.Addr().String() {
		t.Error("two listeners on one address")
	}
	answered := make(chan int, 1)
	go func() { answered <- apptest.Get(t, "http://"+api.Addr().String()+"/slow").Status }()
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

func TestProgram(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	probe := newProbe(t, dsn, nil)
	probe.Build = func(_ *chassis.Chassis, cfg config.Common) error {
		return fmt.Errorf("%w: serves %s", errCheck, cfg.DatabaseURL)
	}
	env := map[string]string{"DATABASE_URL": dsn, "LOG_LEVEL": "error"}
	for _, tt := range []struct {
		command string
		env     map[string]string
		status  int
		want    string
	}{
		{"serve", env, 1, "serves " + dsn},
		{"serve", nil, 1, "DATABASE_URL"},
		{"migrate", nil, 1, "DATABASE_URL"},
		{"healthcheck", nil, 1, "DATABASE_URL"},
		{"migrate", env, 0, ""},
		{"migrate", env, 0, ""},
		{"--help", nil, 0, "DB_LOCK_TIMEOUT"},
	} {
		var out strings.Builder
		status := lifecycle.Main(probe.Program(), []string{tt.command}, tt.env, &out, &out)
		if status != tt.status || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: status %d, %s", tt.command, status, out.String())
		}
	}
	if err := migrate.Verify(t.Context(), dsn, migrations(), slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

// healthcheck finds a replica by the ADMIN_ADDR of its environment, and says why it is not ready.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	p := newProbe(t, dsn, map[string]string{"MIGRATE_ON_START": "false"})
	waiting := p.run(t)
	waittest.Eventually(t, "alive", func() bool { return waiting.get(t, "/livez") == http.StatusOK })
	other := newProbe(t, dbtest.Empty(t), nil).run(t)
	waittest.Eventually(t, "ready", func() bool { return other.get(t, "/readyz") == http.StatusOK })
	_, port, err := net.SplitHostPort(other.AdminAddr().String())
	if err != nil {
		t.Fatal(err)
	}

	for addr, want := range map[string]string{
		":" + port:                   "",
		"0.0.0.0:" + port:            "",
		"127.0.0.1:" + port:          "",
		waiting.AdminAddr().String(): "/readyz answered 503: not ready: starting\n",
	} {
		var out strings.Builder
		environ := map[string]string{"DATABASE_URL": dsn, "ADMIN_ADDR": addr}
		status := lifecycle.Main(p.Program(), []string{"healthcheck"}, environ, &out, &out)
		if ready := status == 0; ready != (want == "") {
			t.Errorf("ADMIN_ADDR=%s: status %d, %s", addr, status, &out)
		}
		if said := out.String(); !strings.HasSuffix(said, want) {
			t.Errorf("ADMIN_ADDR=%s: %q, want it to end with %q", addr, said, want)
		}
	}
}
