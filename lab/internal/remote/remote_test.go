package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
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

func do(t *testing.T, dsn, statement string) {
	t.Helper()
	if err := local.Send(context.WithoutCancel(t.Context()), dsn, statement); err != nil {
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
	able, readOnly := role(t, here, "CREATEDB CREATEROLE"), role(t, here, "CREATEDB CREATEROLE")
	do(t, readOnly, `ALTER ROLE CURRENT_USER SET default_transaction_read_only = on`)
	pooled := strings.Replace(dbtest.PgBouncer(t, able, 2), "binary_parameters=yes", "connect_timeout=9", 1)
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
		{readOnly, "default_transaction_read_only", 1},
		{able, "max_connections=", 100_000},
		{able, "", 5},
	} {
		_, err := Open(t.Context(), c.dsn, c.connections)
		text := fmt.Sprint(err)
		if (err == nil) != (c.want == "") || !strings.Contains(text, c.want) || strings.Contains(text, secret) {
			t.Errorf("%s: %v, want a refusal that says %q", c.dsn, err, c.want)
		}
	}
}

// No other role gets into the run's database, which takes so many connections and no more.
// What cannot be dropped is named.
func TestSession(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	session, err := Open(t.Context(), role(t, dsn, "CREATEDB CREATEROLE"), 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(t, session) })
	if err := session.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	schema := session.Schema(local.Schema{Name: "counts"})
	if _, _, err := local.Prepare(t.Context(), session.Admin, schema); err != nil {
		t.Fatal(err)
	}
	var lasting int
	const lastingSQL = `SELECT count(*) FROM pg_roles WHERE starts_with(rolname, $1)
		AND rolvaliduntil IS NOT NULL AND rolvaliduntil < now() + interval '25 hours'`
	err = dbtest.Dial(t, dsn).QueryRowContext(t.Context(), lastingSQL, session.Name).Scan(&lasting)
	if err != nil || lasting != 2 {
		t.Errorf("%d roles of the run end in a day, want 2: %v", lasting, err)
	}

	in := func(dsn string) string { return change(t, dsn, func(u *url.URL) { u.Path = "/" + session.Name }) }
	err = dbtest.Dial(t, in(role(t, dsn, ""))).PingContext(t.Context())
	if refused, ok := errors.AsType[*pq.Error](err); !ok || refused.Code != "42501" {
		t.Errorf("another role: %v", err)
	}
	var limit int
	const limitSQL = `SELECT datconnlimit FROM pg_database WHERE datname = $1`
	err = dbtest.Dial(t, dsn).QueryRowContext(t.Context(), limitSQL, session.Name).Scan(&limit)
	if err != nil || limit != 5 {
		t.Errorf("the database takes %d connections, %v", limit, err)
	}

	// A superuser is in the run's database, whom this role cannot end.
	inside := dbtest.Dial(t, in(dsn))
	if err := inside.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	want := strings.Join(append([]string{session.Name}, schema.RoleNames()...), ", ")
	if err := session.Drop(ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it ends with %v, want %s", err, want)
	}
	if err := inside.Close(); err != nil {
		t.Fatal(err)
	}
}
