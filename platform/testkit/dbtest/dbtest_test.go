package dbtest_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// childVariable makes a test of this binary, started by another one, do its part.
const childVariable = "ROWLOCK_DBTEST_CHILD"

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func shop(value int) migrate.Source {
	up := fmt.Sprintf("-- rowlock: compatible\n-- +goose Up\n"+
		"CREATE TABLE shop.item (n int);\nINSERT INTO shop.item VALUES (%d);\n", value)
	return migrate.Source{Schema: "shop", FS: fstest.MapFS{"migrations/00001_item.sql": {Data: []byte(up)}}}
}

func execute(t testing.TB, db *sqlx.DB, statement string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), statement)
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func number(t testing.TB, db *sqlx.DB, query string, args ...any) int {
	t.Helper()
	var n int
	if err := db.GetContext(t.Context(), &n, query, args...); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPostgresIsMigratedAndPrivate(t *testing.T) {
	t.Parallel()
	src := shop(7)
	first, second := dbtest.Dial(t, dbtest.Postgres(t, src)), dbtest.Dial(t, dbtest.Postgres(t, src))
	execute(t, first, "UPDATE shop.item SET n = 8")
	if n := number(t, first, "SELECT n FROM shop.item"); n != 8 {
		t.Errorf("first: n = %d, want 8", n)
	}
	if n := number(t, second, "SELECT n FROM shop.item"); n != 7 {
		t.Errorf("second: n = %d, want 7: databases are not apart", n)
	}
	// Other migrations, same names: another template.
	if n := number(t, dbtest.Dial(t, dbtest.Postgres(t, shop(9))), "SELECT n FROM shop.item"); n != 9 {
		t.Errorf("other migrations: n = %d, want 9", n)
	}
	const schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'shop'"
	if n := number(t, dbtest.Dial(t, dbtest.Empty(t)), schemas); n != 0 {
		t.Error("an empty database has a schema shop")
	}
}

func TestDatabaseGoesWithTheTest(t *testing.T) {
	t.Parallel()
	var dsn string
	t.Run("inner", func(t *testing.T) {
		dsn = dbtest.Empty(t)
		if err := dbtest.Dial(t, dsn).PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	err := dbtest.Dial(t, dsn).PingContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("after the test: %v, want a database that does not exist", err)
	}
}

// child starts this binary again, to run the one test named, on the server at url (none: its
// own), and returns it running.
func child(t *testing.T, test, url string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+test+"$", "-test.v", "-test.timeout=2m")
	environ := config.Environ()
	environ[childVariable], environ[dbtest.URLVariable] = test, url
	for name, value := range environ {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

func onlyAsChild(t *testing.T) {
	t.Helper()
	if config.Environ()[childVariable] != t.Name() {
		t.Skip("runs only in a process that another test starts")
	}
}

// Four processes meet on one fresh server and want the same template at once: it is built once,
// and each gets its databases.
func TestProcessesShareAServer(t *testing.T) {
	t.Parallel()
	// A server of a test's own has the settings that the test asks for.
	server := dbtest.Server(t, map[string]string{"work_mem": "7MB"})
	admin := dbtest.Dial(t, server.URL("postgres"))
	if n := number(t, admin, "SELECT setting::int / 1024 FROM pg_settings WHERE name = 'work_mem'"); n != 7 {
		t.Errorf("work_mem = %d MB, want 7", n)
	}
	var wg sync.WaitGroup
	for range 4 {
		cmd, out := child(t, "TestSharedByProcesses", server.URL("postgres"))
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	const templates = "FROM pg_database WHERE starts_with(datname, 'rowlock_template_')"
	if n := number(t, admin, "SELECT count(*) "+templates); n != 1 {
		t.Errorf("%d templates, want 1", n)
	}
	if n := number(t, admin, "SELECT count(*) FROM pg_database WHERE starts_with(datname, 'rowlock_test_')"); n != 0 {
		t.Errorf("%d test databases are left, want 0", n)
	}

	// A killed builder leaves half a template; the next one builds it again.
	half := number(t, admin, "SELECT oid "+templates)
	execute(t, admin, "UPDATE pg_database SET datistemplate = false WHERE oid = "+strconv.Itoa(half))
	cmd, out := child(t, "TestSharedByProcesses", server.URL("postgres"))
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if number(t, admin, "SELECT oid "+templates) == half {
		t.Error("half a template is used")
	}
	failedTestKeepsItsDatabase(t, server, admin)
}

func TestSharedByProcesses(t *testing.T) {
	onlyAsChild(t)
	waittest.Together(t, 4, func(int) error {
		if n := number(t, dbtest.Dial(t, dbtest.Postgres(t, shop(42))), "SELECT n FROM shop.item"); n != 42 {
			t.Errorf("n = %d, want 42", n)
		}
		return nil
	})
}

// A failed test's database stays on a given server, and its DSN is printed; a day later the next run
// drops it.
func failedTestKeepsItsDatabase(t *testing.T, server *localpg.Server, admin *sqlx.DB) {
	t.Helper()
	execute(t, admin, "CREATE DATABASE rowlock_test_1_old")
	execute(t, admin, "CREATE DATABASE unrelated")
	cmd, out := child(t, "TestFails", server.URL("postgres"))
	if err := cmd.Run(); err == nil {
		t.Fatalf("a failing test ends with status 0\n%s", out)
	}
	_, rest, found := strings.Cut(out.String(), "or as long as its server: ")
	dsn, _, _ := strings.Cut(rest, "\n")
	if !found {
		t.Fatalf("no DSN in the output:\n%s", out)
	}
	if n := number(t, dbtest.Dial(t, dsn), "SELECT n FROM shop.item"); n != 43 {
		t.Errorf("n = %d, want 43", n)
	}
	const query = "SELECT count(*) FROM pg_database WHERE datname IN ('rowlock_test_1_old', 'unrelated')"
	if n := number(t, admin, query); n != 1 {
		t.Errorf("%d databases, want 1: the old one is dropped, the other kept", n)
	}
}

func TestFails(t *testing.T) {
	onlyAsChild(t)
	dsn := dbtest.Postgres(t, shop(42))
	execute(t, dbtest.Dial(t, dsn), "UPDATE shop.item SET n = 43")
	t.Fail()
}
