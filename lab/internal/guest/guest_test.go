package guest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const secret = "opensesame-5d1f"

// landlord makes a role with the attributes and returns the URL by which it gets in.
func landlord(t *testing.T, dsn, attributes string) string {
	t.Helper()
	name := "landlord_" + strings.ToLower(rand.Text()[:8])
	do(t, dsn, `CREATE ROLE `+name+` LOGIN PASSWORD '`+secret+`' `+attributes)
	t.Cleanup(func() { do(t, dsn, `DROP OWNED BY `+name, `DROP ROLE `+name) })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, secret)
	return u.String()
}

func do(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := inConn(ctx, dsn, func(conn *sql.Conn) error {
		for _, one := range statements {
			if _, err := conn.ExecContext(ctx, one); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v: %v", statements, err)
	}
}

// enter looks at the server and makes a stay on it.
func enter(t *testing.T, dsn string) *Stay {
	t.Helper()
	s, err := Parse(dsn)
	if err == nil {
		err = s.Look(t.Context(), 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	stay, err := s.Enter(t.Context())
	t.Cleanup(func() { leave(t, stay) })
	if err != nil {
		t.Fatal(err)
	}
	return stay
}

func leave(t *testing.T, stay *Stay) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	if left, err := stay.Leave(ctx); err != nil || left != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"": "no URL",
		"host=localhost user=u password=" + secret:                             "no URL",
		"mysql://u:" + secret + "@h/db":                                        "no URL",
		"postgres://u:" + secret + "%zz@h/db":                                  "no URL",
		"postgres://u:" + secret + "@h/db?sslmode=%zz":                         "no URL",
		"postgres:u:" + secret + "@h":                                          "no URL",
		"postgres://u:" + secret + "@/db?sslmode=disable":                      "one host",
		"postgres://u:" + secret + "@a,b/db?sslmode=disable":                   "one host",
		"postgres://u:" + secret + "@h/db":                                     "sslmode=",
		"postgres://u:" + secret + "@h/db?sslmode=prefer":                      "sslmode=",
		"postgres://u:" + secret + "@h/db?sslmode=disable&options=-c":          `"options"`,
		"postgres://u:" + secret + "@h/db?sslmode=disable&connect_timeout=x":   "the driver",
		"postgres://u:" + secret + "@h/db?sslmode=verify-ca&sslrootcert=/no":   "/no",
		"postgres://u:" + secret + "@h/db?sslmode=require&sslcert=/a&sslkey=b": "/a",
	} {
		_, err := Parse(dsn)
		var refusal RefusalError
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want a refusal that says %s", dsn, err, want)
		}
	}
	s, err := Parse("postgres://u:p@[::1]/db?sslmode=require")
	if err != nil || s.name != "[::1]:5432" || s.TLS() == nil || !s.TLS().InsecureSkipVerify {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = Parse("postgres://h:7/db?sslmode=verify-full&sslrootcert=system")
	if err != nil || s.TLS().InsecureSkipVerify || s.TLS().ServerName != "h" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	good := facts{
		Version: 140_000, VersionName: "14.0", CreateDB: true, CreateRole: true, Inherit: true,
		MaxConnections: 100, Free: 60, Activity: true, // a tenth of which is for others
	}
	if err := good.fit(50); err != nil {
		t.Errorf("a server that is good enough: %v", err)
	}
	for want, spoil := range map[string]func(*facts){
		"13.21":                   func(f *facts) { f.Version, f.VersionName = 130_021, "13.21" },
		"standby":                 func(f *facts) { f.ReadOnly = true },
		"CREATEDB":                func(f *facts) { f.CreateDB = false },
		"CREATEROLE":              func(f *facts) { f.CreateRole = false },
		"NOINHERIT":               func(f *facts) { f.Inherit = false },
		"leaves 59":               func(f *facts) { f.Free = 59 },
		"beyond which 10":         func(f *facts) { f.Free = 59 },
		"leaves 0 connections":    func(f *facts) { f.Free = -3 },
		"max_connections=100":     func(f *facts) { f.Free = 1 },
		"with DB_MAX_OPEN_CONNS=": func(f *facts) { f.Free = 1 },
	} {
		f := good
		spoil(&f)
		if err := f.fit(50); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a refusal that says %s", err, want)
		}
	}
	small := facts{Version: 180_000, Super: true, MaxConnections: 20, Free: 10}
	if err := small.fit(5); err != nil {
		t.Errorf("a superuser may do everything: %v", err)
	}
	if err := small.fit(6); err == nil {
		t.Error("4 connections are enough for others")
	}
}

// What stands against a run is found out at a real server, and said without the password.
func TestLook(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	able := landlord(t, dsn, "CREATEDB CREATEROLE")
	unable := landlord(t, dsn, "CREATEDB")
	standby := landlord(t, dsn, "CREATEDB CREATEROLE")
	do(t, dsn, `ALTER ROLE `+user(t, standby)+` SET default_transaction_read_only = on`)
	pooled := dbtest.PgBouncer(t, able, 2)
	for name, c := range map[string]struct {
		dsn, want   string
		connections int
	}{
		"good":             {able, "", 5},
		"not so many":      {able, "max_connections=", 100_000},
		"no rights":        {unable, "CREATEROLE", 5},
		"read only":        {standby, "takes no changes", 5},
		"wrong password":   {strings.Replace(able, secret, secret+"x", 1), "lets nobody in", 5},
		"no such database": {swap(t, able, func(u *url.URL) { u.Path = "/nowhere" }), "nowhere", 5},
		"nobody there":     {swap(t, able, func(u *url.URL) { u.Host = "127.0.0.1:1" }), "127.0.0.1:1 cannot be reached", 5},
		"no TLS there":     {strings.Replace(able, "sslmode=disable", "sslmode=require", 1), "SSL", 5},
		"a pooler":         {pooled, "a pooler", 5},
	} {
		c.dsn = swap(t, c.dsn, func(u *url.URL) { // the pooler's has one more parameter
			q := u.Query()
			q.Del("binary_parameters")
			u.RawQuery = q.Encode()
		})
		s, err := Parse(c.dsn)
		if err == nil {
			err = s.Look(t.Context(), c.connections)
		}
		var refusal RefusalError
		switch {
		case c.want == "" && err == nil:
		case c.want == "" || !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret):
			t.Errorf("%s: %v, want a refusal that says %q", name, err, c.want)
		}
	}
}

func user(t *testing.T, dsn string) string {
	t.Helper()
	var name string
	swap(t, dsn, func(u *url.URL) { name = u.User.Username() })
	return pq.QuoteIdentifier(name)
}

func swap(t *testing.T, dsn string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// One who is no superuser can do what a run does, and nothing of it stays. Whom a superuser
// keeps in the run's database is named with what could not be dropped.
func TestStay(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	stay := enter(t, landlord(t, dsn, "CREATEDB CREATEROLE"))
	schema := stay.Service(local.Schema{Name: "counts"})
	if _, err := local.Prepare(t.Context(), stay.Admin(), schema); err != nil {
		t.Fatal(err)
	}
	for _, role := range schema.RoleNames() {
		if !strings.HasPrefix(role, stay.Names()+"_") {
			t.Errorf("the role %s has not the run's prefix", role)
		}
	}
	if notes := strings.Join(stay.Notes(), " "); !strings.Contains(notes, "deadlock_timeout is 1s") {
		t.Errorf("notes %q", notes)
	}
	// The superuser is in the run's database, where nobody but another one can end it.
	inside := swap(t, dsn, func(u *url.URL) { u.Path = "/" + stay.Names() })
	connector, err := pq.NewConnector(inside)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	left, err := stay.Leave(ctx)
	want := append([]string{stay.Names()}, schema.RoleNames()...)
	if !slices.Equal(left, want) || err == nil || !strings.Contains(err.Error(), strings.Join(want, ", ")) {
		t.Errorf("left %v, %v; want %v", left, err, want)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	leave(t, stay)
	var there int
	err = inConn(t.Context(), dsn, func(conn *sql.Conn) error {
		return conn.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) +
			(SELECT count(*) FROM pg_roles WHERE starts_with(rolname, $1))`, stay.Names()).Scan(&there)
	})
	if err != nil || there != 0 {
		t.Errorf("%d things are still there, %v", there, err)
	}
}

// A superuser ends whoever is in the run's database, and its deadlocks are noticed at once.
func TestStayOfASuperuser(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	stay := enter(t, dsn)
	connector, err := pq.NewConnector(stay.Admin())
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	var timeout string
	err = db.QueryRowContext(t.Context(), `SHOW deadlock_timeout`).Scan(&timeout)
	if err != nil || timeout != deadlockWish || len(stay.Notes()) > 0 {
		t.Errorf("deadlock_timeout %s, notes %v, %v", timeout, stay.Notes(), err)
	}
	leave(t, stay)
}

// A server that takes connections and says nothing holds nobody up for long.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // connections are taken by the system, and nobody reads them
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	named := func(timeout string) *Server {
		s, err := Parse("postgres://u:" + secret + "@" + silent.Addr().String() + "/db?sslmode=disable&connect_timeout=" + timeout)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var refusal RefusalError
	if err := named("1").Look(t.Context(), 1); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("a look: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	stay, begin := &Stay{server: named("30"), database: "rowlock_prove_x"}, time.Now()
	left, err := stay.Leave(ctx)
	if took := time.Since(begin); !slices.Equal(left, []string{"rowlock_prove_x"}) || err == nil || took > 20*time.Second {
		t.Errorf("left %v after %s, %v", left, took, err)
	}
}

// A server that is gone keeps what was made, and its names are told.
func TestLeaveInVain(t *testing.T) {
	t.Parallel()
	want := []string{"rowlock_prove_x", "rowlock_prove_x_counts_app"}
	stay := &Stay{server: &Server{name: "127.0.0.1:1", password: secret}, database: want[0], roles: want[1:]}
	stay.server.url = url.URL{Scheme: "postgres", User: url.UserPassword("u", secret), Host: "127.0.0.1:1", RawQuery: "sslmode=disable"}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	left, err := stay.Leave(ctx)
	if !slices.Equal(left, want) || err == nil || strings.Contains(err.Error(), secret) ||
		!strings.Contains(err.Error(), "may be on the server: "+strings.Join(want, ", ")) {
		t.Errorf("%v, %v", left, err)
	}
}
