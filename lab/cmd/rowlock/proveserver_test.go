package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/guest"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/localpg"
)

// The passwords of the test, none of which may show anywhere.
const (
	landlordPassword  = "opensesame-71c4"
	installedPassword = "installed-90aa"
)

// foreign is a server on which others live: an installed Rowlock with its roles, and a
// session of it. It takes TLS alone, is impatient with idle transactions, and does not
// tell what its sessions do.
type foreign struct {
	super, landlord string // URLs
	bystander       *sql.Conn
	pid             int
	before          string
}

func openForeign(t *testing.T) *foreign {
	t.Helper()
	f := &foreign{}
	_, f.super = dbtest.TLSServer(t, func(o *localpg.Options) {
		o.Settings["idle_in_transaction_session_timeout"], o.Settings["track_activities"] = "400ms", "off"
	})
	statements := []string{`CREATE ROLE landlord LOGIN CREATEDB CREATEROLE PASSWORD '` + landlordPassword + `'`, `CREATE DATABASE rowlock`}
	for _, s := range services.All() {
		for _, role := range local.SchemaOf(s).RoleNames() {
			statements = append(statements, `CREATE ROLE `+role+` LOGIN CONNECTION LIMIT 17 PASSWORD '`+installedPassword+`'`)
		}
	}
	db := dial(t, f.super)
	for _, one := range statements {
		statement(t, db, one)
	}
	f.landlord = f.as(t, "landlord", landlordPassword, "postgres")
	var err error
	if f.bystander, err = dial(t, f.as(t, "counts_app", installedPassword, "rowlock")).Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.pid = f.backend(t)
	f.before = f.inventory(t)
	return f
}

func (f *foreign) as(t *testing.T, name, password, database string) string {
	t.Helper()
	u, err := url.Parse(f.super)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Path = url.UserPassword(name, password), "/"+database
	return u.String()
}

func statement(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), text)
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// backend is the process that serves the bystander.
func (f *foreign) backend(t *testing.T) (pid int) {
	t.Helper()
	if err := f.bystander.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Errorf("the bystander's session: %v", err)
	}
	return pid
}

// inventory is everything on the server that a run could leave behind or change: roles
// with their passwords, memberships, databases, settings.
func (f *foreign) inventory(t *testing.T) (all string) {
	t.Helper()
	err := dial(t, f.super).QueryRowContext(t.Context(), `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT 'role ' || (a - 'oid')::text FROM (SELECT to_jsonb(r) AS a FROM pg_authid r) roles
		UNION ALL SELECT 'member ' || roleid::regrole || ' ' || member::regrole FROM pg_auth_members
		UNION ALL SELECT 'database ' || datname || datdba::regrole || coalesce(datacl::text, '') || datconnlimit FROM pg_database
		UNION ALL SELECT 'setting ' || s::text FROM pg_db_role_setting s
		UNION ALL SELECT 'setting ' || name || setting FROM pg_settings WHERE source LIKE '%file') things (line)`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unharmed demands that everything is as it was.
func (f *foreign) unharmed(t *testing.T) {
	t.Helper()
	if after := f.inventory(t); after != f.before {
		t.Errorf("before\n%s\nafter\n%s", f.before, after)
	}
	if pid := f.backend(t); pid != f.pid {
		t.Errorf("the bystander's session was process %d and is %d", f.pid, pid)
	}
	for _, s := range services.All() {
		for _, role := range local.SchemaOf(s).RoleNames() {
			if err := dial(t, f.as(t, role, installedPassword, "rowlock")).PingContext(t.Context()); err != nil {
				t.Errorf("%s cannot log in any more: %v", role, err)
			}
		}
	}
}

// A run as a guest on a server of others: whatever does not need to own the server is done, by
// one who is no superuser, over TLS alone; and when it is over the server is as it was.
func TestProveAsGuest(t *testing.T) {
	t.Parallel()
	f := openForeign(t)
	dbtest.PgBouncer(t, f.landlord, 1) // a window needs one: without it the test is skipped
	var windows []prove.Window
	for _, w := range []struct {
		name   string
		length time.Duration
	}{
		{"restart", 8 * time.Second},
		{"pooler", 4 * time.Second},
		{"held", 8 * time.Second},
		{"exhausted", 3 * time.Second},
	} {
		one, err := prove.Schedule(3, w.length, []string{w.name})
		if err != nil {
			t.Fatal(err)
		}
		windows = append(windows, one...)
	}
	chosen, err := choose([]string{"counts", "events"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := proveOptions{services: chosen, replicas: 2, clients: 4, seed: 3, out: dir, dsn: f.landlord}
	var said bytes.Buffer
	p := process{environ: config.Environ(), stdout: &said, stderr: &said}
	p.environ["PGPASSWORD"], p.environ["DB_POOLER"] = landlordPassword, "transaction" // about another server, and not for the replicas
	host, err := look(t.Context(), p, "prove", o)
	if err != nil {
		t.Fatal(err)
	}
	report, err := prover{process: p, options: o, windows: windows, host: host}.run(t.Context())
	if report == nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if err := errors.Join(err, saveProof(report, dir, p), report.WriteTable(&said), verdict(report, p)); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	f.unharmed(t)

	for _, w := range report.Windows {
		left := []prove.LeftOut{}
		if w.Name == "restart" {
			left = []prove.LeftOut{{Service: "counts", Reason: "needs to own the server"}, {Service: "events", Reason: "needs to own the server"}}
		}
		if !slices.Equal(w.LeftOut, left) || len(w.Columns)+len(left) != len(chosen) {
			t.Errorf("%s: left out of %v, run for %d services", w.Name, w.LeftOut, len(w.Columns))
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "proof.html"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "proof.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &prove.Report{}); err != nil {
		t.Error(err)
	}
	for what, text := range map[string]string{"the console": said.String(), "proof.html": string(page), "proof.json": string(raw)} {
		for _, want := range []string{"needs to own the server", "deadlock_timeout is 1s", "track_activities is off", " at 127.0.0.1:"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", what, want, text)
			}
		}
		if strings.Contains(text, landlordPassword) {
			t.Errorf("%s holds the password", what)
		}
	}
}

// A run that is interrupted leaves nothing behind, either. It is a superuser's: nothing but the run itself
// keeps it from the roles and the sessions of others.
func TestProveAsGuestInterrupted(t *testing.T) {
	t.Parallel()
	f := openForeign(t)
	args := strings.Fields("prove --service counts --replicas 2 --clients 4 --faults exhausted --for 30s")
	r := start(t, nil, append(args, "--out", "", "--dsn", f.super)...)
	db := dial(t, f.super)
	r.until("the run has ended sessions of its own", func() bool {
		var ended int
		err := db.QueryRowContext(t.Context(), `SELECT coalesce(sum(sessions_killed), 0) FROM pg_stat_database
			WHERE starts_with(datname, $1)`, guest.Prefix).Scan(&ended)
		return err == nil && ended > 0
	})
	if now := f.inventory(t); !strings.Contains(now, "database "+guest.Prefix) || !strings.Contains(now, `"`+guest.Prefix) {
		t.Errorf("the run's database and roles are not to be seen:\n%s", now)
	}
	r.signal(syscall.SIGINT)
	if status := r.end(); status != exitError {
		t.Errorf("it ends with status %d", status)
	}
	f.unharmed(t)
	u, err := url.Parse(f.super)
	if err != nil {
		t.Fatal(err)
	}
	if password, _ := u.User.Password(); password == "" || strings.Contains(r.output(), password) {
		t.Error("it says the password")
	}
}

// What cannot work is refused at once, as an error of usage, in a sentence without the password.
func TestProveRefusesTheServer(t *testing.T) {
	t.Parallel()
	here := dbtest.Empty(t)
	u, err := url.Parse(here)
	if err != nil {
		t.Fatal(err)
	}
	wrong := "postgres://nobody:" + landlordPassword + "@" + u.Host + "/postgres?sslmode=disable"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--dsn", "tea:" + landlordPassword}, "prove: --dsn: it is no URL"},
		{[]string{"--dsn", "postgres://u:" + landlordPassword + "@h/db"}, "sslmode="},
		{[]string{"--dsn", "postgres://u:" + landlordPassword + "@127.0.0.1:1/db?sslmode=disable"}, "127.0.0.1:1 cannot be reached"},
		{[]string{"--dsn", wrong}, "lets nobody in"},
		{[]string{"--dsn", here, "--replicas", "10"}, "max_connections="},
		{[]string{"--dsn", here, "--service", "counts", "--faults", "restart"}, "needs to own the server"},
		{[]string{wrong}, "such as --dsn"},
	} {
		var said bytes.Buffer
		status := run(t.Context(), process{stdout: &said, stderr: &said}, append([]string{"prove"}, c.args...))
		if text := said.String(); status != exitUsage || !strings.Contains(text, c.want) || strings.Count(text, "\n") != 1 ||
			strings.Contains(text, landlordPassword) {
			t.Errorf("%v: status %d, it says %q, want %q", c.args, status, text, c.want)
		}
	}
	refused(t, "prove --dsn=", "it is empty")
	refused(t, "mutation-test "+wrong, "--dsn")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := look(ended, process{}, "prove", proveOptions{dsn: here}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted look: %v", err)
	}
}

// Nothing that is about another server reaches a replica: it would write there.
func TestReplicaEnviron(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"PATH": "/bin", "DB_MAX_OPEN_CONNS": "7", "LOG_LEVEL": "debug"}
	want := maps.Clone(environ)
	want["SHUTDOWN_DELAY"] = shutdownDelay
	for _, name := range []string{
		"DATABASE_URL", "MIGRATE_DATABASE_URL", "PROCESSOR_DATABASE_URL", "ROWLOCK_TEST_DATABASE_URL", "DATABASE_URI", "OTHER_DATABASE_URI",
		"DB_POOLER", "PGHOST", "PGHOSTADDR", "PGUSER", "PGPASSWORD", "PGSERVICE", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS",
		"INTERNAL_HTTP_ADDR",
	} {
		environ[name] = "elsewhere"
	}
	if got := (prover{process: process{environ: environ}}).replicaEnviron(); !maps.Equal(got, want) {
		t.Errorf("the replicas get %v, want %v", got, want)
	}
}

// The most connections of a run: every pool of three replicas and of one that ends, and our own.
func TestMostConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		service, pool string
		want          int
	}{
		{"counts", "", 4*8 + 4},
		{"counts", "7", 4*7 + 4},
		{"payments", "", 4*(8+6) + 4},
		{"events", "", 4*8 + 3*8 + 4},
		{"iidy", "no number", 4*8 + 4},
	} {
		chosen, err := choose([]string{c.service})
		if err != nil {
			t.Fatal(err)
		}
		if n := mostConnections(map[string]string{"DB_MAX_OPEN_CONNS": c.pool}, proveOptions{services: chosen, replicas: 3}); n != c.want {
			t.Errorf("%s with pools of %q: %d, want %d", c.service, c.pool, n, c.want)
		}
	}
}
