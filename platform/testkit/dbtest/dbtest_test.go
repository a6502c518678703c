package dbtest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// childVariable makes TestSharedByProcesses run.
const childVariable = "ROWLOCK_DBTEST_CHILD"

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func shop(value int) migrate.Source {
	up := fmt.Sprintf("-- rowlock: compatible\n-- +goose Up\n"+
		"CREATE TABLE shop.item (n int PRIMARY KEY);\nINSERT INTO shop.item VALUES (%d);\n", value)
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

// shareServer runs TestSharedByProcesses in another process, on the server at url.
func shareServer(t *testing.T, url string) error {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestSharedByProcesses$", "-test.timeout=2m")
	cmd.Env = append(cmd.Environ(), childVariable+"=yes", dbtest.URLVariable+"="+url)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
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
	waittest.Together(t, 4, func(int) error { return shareServer(t, server.URL("postgres")) })
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
	if err := shareServer(t, server.URL("postgres")); err != nil {
		t.Error(err)
	}
	if number(t, admin, "SELECT oid "+templates) == half {
		t.Error("half a template is used")
	}
}

func TestSharedByProcesses(t *testing.T) {
	if config.Environ()[childVariable] == "" {
		t.Skip("runs only in a process that another test starts")
	}
	waittest.Together(t, 4, func(int) error {
		if n := number(t, dbtest.Dial(t, dbtest.Postgres(t, shop(42))), "SELECT n FROM shop.item"); n != 42 {
			t.Errorf("n = %d, want 42", n)
		}
		return nil
	})
}
