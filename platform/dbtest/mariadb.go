package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// maria is the MariaDB server of this test process, started for the first test that needs it.
var maria mariaServer //nolint:gochecknoglobals // one server per process is the point

type mariaServer struct {
	once sync.Once
	err  error
	own  *localmaria.Server
}

// privateMaria starts a server. Only a loss of power could lose what was committed, not the death of
// the server.
func privateMaria(ctx context.Context, settings []map[string]string) (*localmaria.Server, error) {
	all := map[string]string{
		"innodb-flush-log-at-trx-commit": "2", "innodb-doublewrite": "0", "innodb-buffer-pool-size": "128M",
	}
	for _, more := range settings {
		maps.Copy(all, more)
	}
	return localmaria.Start(ctx, localmaria.Options{Settings: all})
}

// MariaDB returns the DSN of a new MariaDB database with the schema of src's migrations. Without an
// installed MariaDB server the test is skipped, or, with CI=true, fails. The database exists until the
// test process ends.
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

// EmptyMariaDB returns the DSN of a new empty MariaDB database.
func EmptyMariaDB(t testing.TB) string {
	t.Helper()
	maria.once.Do(func() {
		// The server belongs to the process, not to this test.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
		defer cancel()
		maria.own, maria.err = privateMaria(ctx, nil)
	})
	skipOrFail(t, maria.err, localmaria.ErrNotInstalled)
	return newMariaDatabase(t, maria.own)
}

// MariaServer starts a MariaDB server with an empty database for one test alone, which may kill and
// restart it; it is removed with the test. Settings override those of the shared server, as in
// localmaria.Options.
func MariaServer(t testing.TB, settings ...map[string]string) (server *localmaria.Server, dsn string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	own, err := privateMaria(ctx, settings)
	skipOrFail(t, err, localmaria.ErrNotInstalled)
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	return own, newMariaDatabase(t, own)
}

// newMariaDatabase makes a database, which exists until the server is removed.
func newMariaDatabase(t testing.TB, server *localmaria.Server) string {
	t.Helper()
	name := testPrefix + strings.ToLower(rand.Text()[:8]) + "_" + plain(t.Name())
	name = strings.TrimRight(name[:min(len(name), 63)], "_")
	connector, err := sqldb.Connector(server.URL("mysql"))
	if err == nil {
		err = onSession(t.Context(), connector, func(conn *sql.Conn) error {
			return run(t.Context(), conn, "CREATE DATABASE "+name)
		})
	}
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	return server.URL(name)
}
