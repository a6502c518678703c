package remote

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const secret = "opensesame-5d1f"

// role makes a role with the attributes and returns the URL by which it connects.
func role(t *testing.T, dsn, attributes string) string {
	t.Helper()
	name := "prover_" + strings.ToLower(rand.Text()[:8])
	do(t, dsn, `CREATE ROLE `+name+` LOGIN PASSWORD '`+secret+`' `+attributes)
	t.Cleanup(func() { do(t, dsn, `DROP OWNED BY `+name); do(t, dsn, `DROP ROLE `+name) })
	return change(t, dsn, func(u *url.URL) { u.User = url.UserPassword(name, secret) })
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	connector, err := sqldb.Connector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func do(t *testing.T, dsn, statement string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := open(t, dsn).Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, statement)
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func change(t *testing.T, dsn string, to func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	to(u)
	return u.String()
}

func drop(t *testing.T, session *Session) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	if err := session.Drop(ctx); err != nil {
		t.Error(err)
	}
}

// What a server's URL must not be, and what stands against a run on it, is said in a
// sentence without the password.
func TestRefusals(t *testing.T) {
	t.Parallel()
	here := dbtest.Empty(t)
	able := role(t, here, "CREATEDB CREATEROLE")
	pooled := change(t, dbtest.PgBouncer(t, able, 2), func(u *url.URL) {
		q := u.Query()
		q.Del("binary_parameters")
		u.RawQuery = q.Encode()
	})
	for _, c := range []struct {
		dsn, want   string
		connections int
	}{
		{"host=localhost user=u password=" + secret, "no URL", 1},
		{"mysql://u:" + secret + "@h/db", "no URL", 1},
		{"postgres://u:" + secret + "%zz@h/db", "no URL", 1},
		{"postgres://u:" + secret + "@/db?sslmode=disable", "one host", 1},
		{"postgres://u:" + secret + "@a,b/db?sslmode=disable", "one host", 1},
		{"postgres://u:" + secret + "@h/db", "sslmode=", 1},
		{"postgres://u:" + secret + "@h/db?sslmode=prefer", "sslmode=", 1},
		{"postgres://u:" + secret + "@h/db?sslmode=disable&options=-c", `"options"`, 1},
		{"postgres://u:" + secret + "@h/db?sslmode=disable&connect_timeout=x", "the driver", 1},
		{"postgres://u:" + secret + "@h/db?sslmode=verify-full&sslrootcert=/no", "/no", 1},
		{"postgres://u:" + secret + "@127.0.0.1:1/db?sslmode=disable", "127.0.0.1:1 cannot be used", 1},
		{strings.Replace(able, secret, secret+"x", 1), "cannot be used", 1},
		{change(t, able, func(u *url.URL) { u.Path = "/nowhere" }), "nowhere", 1},
		{strings.Replace(able, "sslmode=disable", "sslmode=require", 1), "SSL", 1},
		{pooled, "no pooler", 1},
		{role(t, here, "CREATEDB"), "CREATEROLE", 1},
		{able, "max_connections=", 100_000},
		{able, "", 5},
	} {
		_, err := Open(t.Context(), c.dsn, c.connections)
		refusal, refused := errors.AsType[RefusalError](err)
		text := refusal.Error()
		if refused != (c.want != "") || !strings.Contains(text, c.want) || strings.Contains(text, secret) {
			t.Errorf("%s: %v, want a refusal that says %q", c.dsn, err, c.want)
		}
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	good := facts{CanCreate: true, MaxConnections: 100, Free: 60}
	for want, spoil := range map[string]func(*facts){
		"":                          func(*facts) {},
		"standby":                   func(f *facts) { f.ReadOnly = true },
		"CREATEDB":                  func(f *facts) { f.CanCreate = false },
		"leaves 59":                 func(f *facts) { f.Free = 59 },
		"leaves 0 connections free": func(f *facts) { f.Free = -3 },
	} {
		f := good
		spoil(&f)
		if err := f.check(50); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a refusal that says %q", err, want)
		}
	}
}

// A role that is no superuser can make what a run needs, no other role gets into it, and
// nothing of it is left. What cannot be dropped is named.
func TestSession(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	server, err := Open(t.Context(), role(t, dsn, "CREATEDB CREATEROLE"), 5)
	if err != nil {
		t.Fatal(err)
	}
	session, err := server.Create(t.Context())
	t.Cleanup(func() { drop(t, session) })
	if err != nil {
		t.Fatal(err)
	}
	schema := session.Schema(local.Schema{Name: "counts"})
	access, err := local.Prepare(t.Context(), session.Admin(), schema)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(session.Notes(), " "); !strings.Contains(notes, "deadlock_timeout") {
		t.Errorf("notes %q", notes)
	}
	for _, one := range []string{session.Admin(), access.Owner, access.App} {
		if err := open(t, one).PingContext(t.Context()); err != nil {
			t.Errorf("a role of the run: %v", err)
		}
	}
	other := change(t, role(t, dsn, ""), func(u *url.URL) { u.Path = "/" + session.Name() })
	if refused, ok := errors.AsType[*pq.Error](open(t, other).PingContext(t.Context())); !ok || refused.Code != "42501" {
		t.Errorf("another role: %v", refused)
	}
	var limit int
	const limitSQL = `SELECT datconnlimit FROM pg_database WHERE datname = $1`
	err = open(t, dsn).QueryRowContext(t.Context(), limitSQL, session.Name()).Scan(&limit)
	if err != nil || limit != 5 {
		t.Errorf("the database takes %d connections, %v", limit, err)
	}

	// A superuser is in the run's database, whom this role cannot end.
	inside := open(t, change(t, dsn, func(u *url.URL) { u.Path = "/" + session.Name() }))
	if err := inside.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	want := strings.Join(append([]string{session.Name()}, schema.RoleNames()...), ", ")
	if err := session.Drop(ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it ends with %v, want %s", err, want)
	}
	if err := inside.Close(); err != nil {
		t.Fatal(err)
	}
	drop(t, session)
	var there int
	err = open(t, dsn).QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) +
		(SELECT count(*) FROM pg_roles WHERE starts_with(rolname, $1))`, session.Name()).Scan(&there)
	if err != nil || there != 0 {
		t.Errorf("%d things are still there, %v", there, err)
	}
}

// A server that falls silent does not keep a run from its end, and what may be there is named.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	proxy := faultproxy.New(t, dsn)
	server, err := Open(t.Context(), change(t, proxy.DSN(dsn), func(u *url.URL) {
		q := u.Query()
		q.Set("connect_timeout", "1")
		u.RawQuery = q.Encode()
	}), 5)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	session, err := server.Create(ctx)
	if err == nil {
		t.Error("a silent server makes a database")
	}
	if err := session.Drop(ctx); err == nil || !strings.Contains(err.Error(), session.Name()) {
		t.Errorf("it ends with %v", err)
	}
	proxy.Resume()
	drop(t, session)
}

// What the driver would take from the environment must not lead to another server than
// the URL, to which the proxies connect.
func TestElsewhere(t *testing.T) {
	t.Setenv("PGHOSTADDR", "127.0.0.9")
	_, err := Open(t.Context(), "postgres://u@h:7/db?sslmode=disable", 1)
	if _, refused := errors.AsType[RefusalError](err); !refused || !strings.Contains(err.Error(), "PGHOSTADDR") {
		t.Errorf("%v", err)
	}
}
