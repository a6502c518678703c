package main

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/remote"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// The passwords of the test, none of which may be printed.
const (
	proverPassword    = "opensesame-71c4"
	installedPassword = "installed-90aa"
)

// sharedServer is a server that others use: an installed Rowlock with its roles, and a session of it. It takes TLS
// alone, ends idle transactions early, and does not track what its sessions do.
type sharedServer struct {
	super, prover string // URLs
	bystander     *sql.Conn
	pid           int
	before        string
}

func openShared(t *testing.T) *sharedServer {
	t.Helper()
	f := &sharedServer{}
	_, f.super = dbtest.TLSServer(t,
		map[string]string{"idle_in_transaction_session_timeout": "400ms", "track_activities": "off"})
	statements := []string{
		`CREATE ROLE prover LOGIN CREATEDB CREATEROLE PASSWORD '` + proverPassword + `'`,
	}
	for _, s := range targets.All() {
		for _, role := range local.SchemaOf(s).RoleNames() {
			statements = append(statements, `CREATE ROLE `+role+` LOGIN CONNECTION LIMIT 17 PASSWORD '`+installedPassword+`'`)
		}
	}
	conn, err := dbtest.Dial(t, f.super).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.ExecContext(t.Context(), strings.Join(statements, ";"))
	if err = errors.Join(err, conn.Close(), local.Database(t.Context(), f.super, database)); err != nil {
		t.Fatal(err)
	}
	f.prover = f.as(t, "prover", proverPassword, "postgres")
	installed := dbtest.Dial(t, f.as(t, "counts_app", installedPassword, database))
	if f.bystander, err = installed.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.pid = f.backend(t)
	f.before = f.inventory(t)
	return f
}

func (f *sharedServer) as(t *testing.T, name, password, database string) string {
	t.Helper()
	u, err := url.Parse(f.super)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Path = url.UserPassword(name, password), "/"+database
	return u.String()
}

// backend returns the process that serves the bystander.
func (f *sharedServer) backend(t *testing.T) (pid int) {
	t.Helper()
	if err := f.bystander.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Errorf("the bystander's session: %v", err)
	}
	return pid
}

// inventory lists everything on the server that a run could leave behind or change: roles
// with their passwords, memberships, databases, settings.
func (f *sharedServer) inventory(t *testing.T) (all string) {
	t.Helper()
	err := dbtest.Dial(t, f.super).QueryRowContext(t.Context(), `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT 'role ' || (a - 'oid')::text FROM (SELECT to_jsonb(r) AS a FROM pg_authid r) roles
		UNION ALL SELECT 'member ' || roleid::regrole || ' ' || member::regrole FROM pg_auth_members
		UNION ALL SELECT 'database ' || datname || datdba::regrole || coalesce(datacl::text, '') || datconnlimit
			FROM pg_database
		UNION ALL SELECT 'setting ' || s::text FROM pg_db_role_setting s
		UNION ALL SELECT 'setting ' || name || setting FROM pg_settings WHERE source LIKE '%file') things (line)`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unharmed demands that everything is as it was.
func (f *sharedServer) unharmed(t *testing.T) {
	t.Helper()
	if after := f.inventory(t); after != f.before {
		t.Errorf("before\n%s\nafter\n%s", f.before, after)
	}
	if pid := f.backend(t); pid != f.pid {
		t.Errorf("the bystander's session was process %d and is %d", f.pid, pid)
	}
	for _, s := range targets.All() {
		for _, role := range local.SchemaOf(s).RoleNames() {
			if err := dbtest.Dial(t, f.as(t, role, installedPassword, database)).PingContext(t.Context()); err != nil {
				t.Errorf("%s cannot log in any more: %v", role, err)
			}
		}
	}
}

// A run on a server that others use too does whatever does not need to own the server, by a role
// that is no superuser, over TLS alone; when it is over the server is as it was.
func TestProveRemote(t *testing.T) {
	t.Parallel()
	f := openShared(t)
	dbtest.PgBouncer(t, f.prover, 1) // a window needs one: without it the test is skipped
	chosen, err := choose([]string{targets.Counts, targets.Events})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var said bytes.Buffer
	p := process{environ: config.Environ(), stdout: &said, stderr: &said, hurry: t.Context()}
	// For another server, and not for the replicas.
	p.environ["PGPASSWORD"], p.environ["DB_POOLER"] = proverPassword, "transaction"
	run := proof{process: p, proveOptions: proveOptions{
		Setup: prove.Setup{Replicas: 2, Clients: 4, Seed: 3, Out: dir}, chosen: chosen, dsn: f.prover,
		length: 24 * time.Second, faults: []string{"restart", "pooler", "held"},
	}}
	if err := errors.Join(run.schedule(), run.openRemote(t.Context())); err != nil {
		t.Fatal(err)
	}
	report, err := run.run(t.Context())
	if report == nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if err := conclude(report, err, dir, p); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	f.unharmed(t)
	texts := map[string]string{"the console": said.String()}
	for _, name := range []string{"proof.html", "proof.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	for what, text := range texts {
		for _, want := range []string{
			"only the owner of the server can restart it", "deadlock_timeout", "track_activities is off", " at 127.0.0.1:",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", what, want, text)
			}
		}
		if strings.Contains(text, proverPassword) {
			t.Errorf("%s holds the password", what)
		}
	}
}

// A run that is interrupted leaves nothing behind, either. It is a superuser's: nothing but the run itself
// keeps it from the roles and the sessions of others.
func TestProveRemoteInterrupted(t *testing.T) {
	t.Parallel()
	f := openShared(t)
	args := strings.Fields("prove --service counts --replicas 2 --clients 4 --faults exhausted --for 30s")
	r := start(t, nil, append(args, "--out", "", "--dsn", f.super)...)
	db := dbtest.Dial(t, f.super)
	r.until("the run has ended sessions of its own", func() bool {
		var ended int
		err := db.QueryRowContext(t.Context(), `SELECT coalesce(sum(sessions_killed), 0) FROM pg_stat_database
			WHERE starts_with(datname, $1)`, remote.Prefix).Scan(&ended)
		return err == nil && ended > 0
	})
	r.signal(syscall.SIGINT)
	if status := r.end(); status != exitError {
		t.Errorf("it ends with status %d", status)
	}
	f.unharmed(t)
}

// Nothing that is about another server reaches a replica: it would write there.
func TestReplicaEnviron(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"PATH": "/bin", "DB_MAX_OPEN_CONNS": "7", "LOG_LEVEL": "debug"}
	want := maps.Clone(environ)
	for _, name := range []string{
		"DATABASE_URL", "MIGRATE_DATABASE_URL", "PROCESSOR_DATABASE_URL", "ROWLOCK_TEST_DATABASE_URL", "DATABASE_URI",
		"OTHER_DATABASE_URI", "DB_POOLER", "PGHOST", "PGPASSWORD", "PGSERVICE", "OTEL_EXPORTER_OTLP_HEADERS",
		"INTERNAL_HTTP_ADDR",
	} {
		environ[name] = "elsewhere"
	}
	if got := (&proof{process: process{environ: environ}}).replicaEnviron(); !maps.Equal(got, want) {
		t.Errorf("the replicas get %v, want %v", got, want)
	}
}

// The most connections of a run are those that lab/README.md names.
func TestMostConnections(t *testing.T) {
	t.Parallel()
	for want, names := range map[int][]string{40: {targets.Counts}, 104: {targets.Payments, targets.Events}} {
		chosen, err := choose(names)
		if err != nil {
			t.Fatal(err)
		}
		run := proof{proveOptions: proveOptions{Setup: prove.Setup{Replicas: 3}, chosen: chosen}}
		if n := run.mostConnections(); n != want {
			t.Errorf("%v: %d, want %d", names, n, want)
		}
	}
}

// A broken promise has an exit status of its own, which a run that fails by itself has not. What
// is left behind stands in the last line of either, and does not hide what was found.
func TestConclude(t *testing.T) {
	t.Parallel()
	report := func(holds bool, broken string) *prove.Report {
		checks := []prove.Check{{Name: "linearizable", OK: holds}}
		return &prove.Report{
			Seed: 4, Broken: broken,
			Windows: []*prove.WindowResult{{Services: []prove.ServiceResult{{Service: "counts", Checks: checks}}}},
		}
	}
	lost := errors.New("the server is gone")
	left := errors.New("may still be on db:5432: rowlock_prove_a")
	for name, c := range map[string]struct {
		report *prove.Report
		err    error
		status int
	}{
		"holds":                    {report(true, ""), nil, exitOK},
		"broken promise":           {report(false, ""), nil, exitBroken},
		"lost server":              {report(true, lost.Error()), lost, exitError},
		"lost server, and promise": {report(false, lost.Error()), lost, exitBroken},
		"none was run":             {&prove.Report{}, nil, exitError},
		"left behind":              {report(true, ""), left, exitError},
		"left behind, and promise": {report(false, ""), left, exitBroken},
		"all of it":                {report(false, lost.Error()), errors.Join(lost, left), exitBroken},
	} {
		var said strings.Builder
		p := process{stdout: io.Discard, stderr: &said}
		if status := exitCode(p, conclude(c.report, c.err, "", p)); status != c.status {
			t.Errorf("%s: status %d, want %d", name, status, c.status)
		}
		if errors.Is(c.err, left) && !strings.HasSuffix(said.String(), left.Error()+"\n") {
			t.Errorf("%s: the last line does not name what is left:\n%s", name, said.String())
		}
	}
}

// sourceTree is the root of the source tree, seen from here.
const sourceTree = "../../.."

// Every file of lab/mutants makes a mutant.
func TestMutantsAreThere(t *testing.T) {
	t.Parallel()
	var want []string
	for _, mutant := range prove.Mutants() {
		want = append(want, mutant.File())
	}
	slices.Sort(want)
	found, err := fs.Glob(os.DirFS(sourceTree), "lab/mutants/*")
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("lab/mutants has %q, want %q (%v)", found, want, err)
	}
}

// A change of a service can break a mutant. Only the package of the mutant is compiled: no mutant changes what others
// see of it.
func TestMutantsAreBuilt(t *testing.T) {
	t.Parallel()
	for _, mutant := range prove.Mutants() {
		replacement, err := overlay(sourceTree, t.TempDir(), mutant)
		if err != nil {
			t.Fatal(err)
		}
		diff, err := os.ReadFile(filepath.Join(sourceTree, mutant.File()))
		if err != nil {
			t.Fatal(err)
		}

		_, name, _ := strings.Cut(string(diff), "\n+++ b/")
		name, _, _ = strings.Cut(name, "\n")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-overlay", replacement, "./"+filepath.Dir(name))
		// As make build, whose packages are in Go's cache.
		cmd.Dir, cmd.Env = sourceTree, append(cmd.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", mutant.File(), err, out)
		}
	}
}
