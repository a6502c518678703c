package dbtest

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"net/url"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// MySQLVariable names the environment variable with the URL of a MySQL or MariaDB server to test on, instead of a
// private MariaDB. Its account must have the right to create databases and accounts.
const MySQLVariable = "ROWLOCK_TEST_MYSQL_URL"

// maria is this process's MariaDB server, started for the first test that needs it.
var maria mariaServer

type mariaServer struct {
	once sync.Once
	err  error
	own  *localmaria.Server
}

// privateMaria starts a server. A power failure can lose its commits, the death of the server cannot.
func privateMaria(ctx context.Context, settings []map[string]string) (*localmaria.Server, error) {
	all := map[string]string{
		"innodb-flush-log-at-trx-commit": "2", "innodb-doublewrite": "0", "innodb-buffer-pool-size": "128M",
	}
	for _, more := range settings {
		maps.Copy(all, more)
	}
	return localmaria.Start(ctx, localmaria.Options{Settings: all})
}

// MariaDB returns the DSN of a new database with the schema of src's migrations, on the server of
// [MySQLVariable] or else on a private MariaDB. If MariaDB is not installed, the test is skipped, or
// fails with CI=true. A database on a given server is dropped with the test.
func MariaDB(t testing.TB, src migrate.Source) string {
	t.Helper()
	dsn := EmptyMariaDB(t)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()

	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := migrate.Up(ctx, dsn, src, waitLimit, log); err != nil {
		t.Fatalf("dbtest: migrate: %v", err)
	}
	return dsn
}

// EmptyMariaDB returns the DSN of a new empty database on the same server as [MariaDB].
func EmptyMariaDB(t testing.TB) string {
	t.Helper()
	if given := config.Environ()[MySQLVariable]; given != "" {
		return onGivenServer(t, given)
	}

	maria.once.Do(func() {
		// The server outlives this test.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
		defer cancel()
		maria.own, maria.err = privateMaria(ctx, nil)
	})

	skipOrFail(t, maria.err, localmaria.ErrNotInstalled)
	name := createMariaDatabase(t, maria.own.URL("mysql"))
	return maria.own.URL(name)
}

// onGivenServer creates a database on the server at address, and drops it when the test ends.
func onGivenServer(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("dbtest: %s is not a URL", MySQLVariable) // err would quote the password
	}
	u.Path = "/mysql"
	admin := u.String()

	name := createMariaDatabase(t, admin)
	t.Cleanup(func() { onMaria(context.WithoutCancel(t.Context()), t, admin, "DROP DATABASE "+name) })

	u.Path = "/" + name
	return u.String()
}

// MariaServer starts a MariaDB server with an empty database for this test only. The test may kill and
// restart it. Settings override those of the shared server, as in localmaria.Options.
func MariaServer(t testing.TB, settings ...map[string]string) (server *localmaria.Server, dsn string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	own, err := privateMaria(ctx, settings)
	skipOrFail(t, err, localmaria.ErrNotInstalled)
	stopAtEnd(t, func(context.Context) error { return own.Stop() })
	dsn = own.URL(createMariaDatabase(t, own.URL("mysql")))
	return own, dsn
}

// createMariaDatabase creates a database on the server at admin, and returns its name.
func createMariaDatabase(t testing.TB, admin string) string {
	t.Helper()
	name := newName(t)
	onMaria(t.Context(), t, admin, "CREATE DATABASE "+name)
	return name
}

// onMaria runs one statement in a new session at admin.
func onMaria(ctx context.Context, t testing.TB, admin, statement string) {
	t.Helper()
	connector, err := sqldb.Connector(admin, "", "")
	if err == nil {
		err = localpg.OnSession(ctx, connector, func(conn *sql.Conn) error { return run(ctx, conn, statement) })
	}
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}
