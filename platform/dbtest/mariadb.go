package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
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

// close ends the server and removes its folder.
func (s *mariaServer) close() error {
	if s.own == nil {
		return nil
	}
	return errors.Join(s.own.Kill(), os.RemoveAll(s.own.Dir()))
}

// privateMaria starts a server in a temporary folder. Only a loss of power could lose what was
// committed, not the death of the server.
func privateMaria(ctx context.Context, settings map[string]string) (*localmaria.Server, error) {
	dir, err := localpg.TempFolder(dirPattern)
	if err != nil {
		return nil, err
	}
	own, err := localmaria.Start(ctx, localmaria.Options{Dir: dir, Temporary: true, Settings: settings})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return own, nil
}

func fastMaria() map[string]string {
	return map[string]string{
		"innodb-flush-log-at-trx-commit": "2", "innodb-doublewrite": "0", "innodb-buffer-pool-size": "128M",
	}
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
	if err := migrate.Up(ctx, dsn, src, log); err != nil {
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
		maria.own, maria.err = privateMaria(ctx, fastMaria())
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
	all := fastMaria()
	for _, more := range settings {
		maps.Copy(all, more)
	}
	own, err := privateMaria(ctx, all)
	skipOrFail(t, err, localmaria.ErrNotInstalled)
	t.Cleanup(func() {
		if err := errors.Join(own.Kill(), os.RemoveAll(own.Dir())); err != nil {
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
