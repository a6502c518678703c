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

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// maria is the MariaDB server of this test process, started when the first test asks.
var maria mariaServer //nolint:gochecknoglobals // one server per process is the point

type mariaServer struct {
	once sync.Once
	err  error
	own  *localmaria.Server
}

// close ends the server and removes it.
func (s *mariaServer) close() error {
	if s.own == nil {
		return nil
	}
	return errors.Join(s.own.Kill(), os.RemoveAll(s.own.Dir()))
}

// privateMaria starts a server in a temporary folder. Nothing is forced to the disk, which only a loss of power could tell: a killed
// server loses nothing that was committed.
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
	return map[string]string{"innodb-flush-log-at-trx-commit": "2", "innodb-doublewrite": "0", "innodb-buffer-pool-size": "128M"}
}

// needMaria skips the test on a machine without MariaDB, except in CI.
func needMaria(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, localmaria.ErrNotInstalled) && config.Environ()["CI"] != "true" {
		t.Skipf("dbtest: %v", err)
	}
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}

// MariaDB returns the DSN of a new MariaDB database with the schema that src's migrations make. Without a MariaDB server on the
// machine the test is skipped, or, with CI=true, fails. The database lives as long as the test process.
func MariaDB(t testing.TB, src migrate.Source) string {
	t.Helper()
	dsn := EmptyMariaDB(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := migrate.Up(ctx, dsn, src, log); err != nil {
		t.Fatalf("dbtest: migrate: %v", err)
	}
	return dsn
}

// EmptyMariaDB is MariaDB without anything in the database.
func EmptyMariaDB(t testing.TB) string {
	t.Helper()
	maria.once.Do(func() {
		// The server is the process's, not this test's.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		maria.own, maria.err = privateMaria(ctx, fastMaria())
	})
	needMaria(t, maria.err)
	return newMariaDatabase(t, maria.own)
}

// MariaServer starts a MariaDB server for one test alone, to be killed and restarted at will, with an empty database. It is removed
// with the test. Settings go over those of the shared one, as in localmaria.Options.
func MariaServer(t testing.TB, settings ...map[string]string) (server *localmaria.Server, dsn string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all := fastMaria()
	for _, more := range settings {
		maps.Copy(all, more)
	}
	own, err := privateMaria(ctx, all)
	needMaria(t, err)
	t.Cleanup(func() {
		if err := errors.Join(own.Kill(), os.RemoveAll(own.Dir())); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	return own, newMariaDatabase(t, own)
}

// newMariaDatabase makes a database, which is gone with the server.
func newMariaDatabase(t testing.TB, server *localmaria.Server) string {
	t.Helper()
	name := testPrefix + strings.ToLower(rand.Text()[:8]) + "_" + plain(t.Name())
	name = strings.TrimRight(name[:min(len(name), 63)], "_")
	onMaria(t, server, "CREATE DATABASE "+name)
	return server.URL(name)
}

// onMaria runs one statement of an administrator's.
func onMaria(t testing.TB, server *localmaria.Server, statement string) {
	t.Helper()
	connector, err := sqldb.Connector(server.URL("mysql"))
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), statement)
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		t.Fatalf("dbtest: %s: %v", statement, err)
	}
}
