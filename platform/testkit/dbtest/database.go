package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/migrate"
)

// The names of databases begin with their purpose.
const (
	testPrefix     = "rowlock_test_"
	templatePrefix = "rowlock_template_"
)

// Postgres returns the DSN of a new database with the schema of src's migrations. It is a copy of a
// template, which is built once per server and content of the migrations, by the first process that
// needs it. The database is dropped with the test.
func Postgres(t testing.TB, src migrate.Source) string {
	t.Helper()
	admin := process.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	template, err := process.template(ctx, t, admin, src)
	if err != nil {
		t.Fatalf("dbtest: template: %v", err)
	}
	return clone(t, template)
}

// Empty returns the DSN of a new empty database, which is dropped like those of [Postgres].
func Empty(t testing.TB) string {
	t.Helper()
	// Unlike template1, template0 can always be copied: it accepts no connections.
	return clone(t, "template0")
}

// Encoded returns the DSN of a new empty database that stores text in an encoding such as LATIN1. It is dropped like
// those of [Postgres].
func Encoded(t testing.TB, encoding string) string {
	t.Helper()
	return clone(t, "template0", "ENCODING "+pq.QuoteLiteral(encoding), "LOCALE 'C'")
}

// Dial opens a pool on a PostgreSQL database until the test ends, without the code under test.
func Dial(t testing.TB, dsn string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// clone creates a database with these options of CREATE DATABASE until the test ends.
func clone(t testing.TB, template string, options ...string) string {
	t.Helper()
	admin := process.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()

	name := newName(t)
	dsn, err := withDatabase(admin, name)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}

	err = onAdmin(ctx, admin, func(conn *sql.Conn) error {
		return run(ctx, conn, "CREATE DATABASE "+pq.QuoteIdentifier(name)+" TEMPLATE "+pq.QuoteIdentifier(template)+
			" "+strings.Join(options, " "))
	})
	if err != nil {
		t.Fatalf("dbtest: create a database: %v", err)
	}

	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
		defer cancel()
		if err := onAdmin(ctx, admin, func(conn *sql.Conn) error { return drop(ctx, conn, name) }); err != nil {
			t.Errorf("dbtest: drop the test's database: %v", err)
		}
	})
	return dsn
}

// template returns the name of the template database for src, after building it if necessary.
func (s *server) template(ctx context.Context, t testing.TB, admin string, src migrate.Source) (string, error) {
	hash, err := src.Hash()
	if err != nil {
		return "", err
	}
	const digits = 16
	name := templatePrefix + hash[:digits] + "_published"

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.templates[name] {
		return name, nil
	}
	err = onAdmin(ctx, admin, func(conn *sql.Conn) error {
		// An advisory lock of the maintenance database excludes other processes. It ends with this
		// session, so a killed builder blocks no other.
		if err := run(ctx, conn, "SELECT pg_advisory_lock(hashtextextended($1, 0))", name); err != nil {
			return err
		}
		return build(ctx, t, conn, admin, name, src)
	})
	if err != nil {
		return "", err
	}
	s.templates[name] = true
	return name, nil
}

// build creates the template unless it exists. The caller holds the lock for its name.
func build(ctx context.Context, t testing.TB, conn *sql.Conn, admin, name string, src migrate.Source) error {
	// A template is marked as one only when it is complete: a killed builder leaves an ordinary database.
	var complete bool
	const query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)"
	if err := conn.QueryRowContext(ctx, query, name).Scan(&complete); err != nil {
		return fmt.Errorf("look for the template: %w", err)
	}
	if complete {
		return nil
	}

	quoted := pq.QuoteIdentifier(name)
	err := errors.Join(drop(ctx, conn, name), run(ctx, conn, "CREATE DATABASE "+quoted+" TEMPLATE template0"))
	if err != nil {
		return err
	}
	dsn, err := withDatabase(admin, name)
	if err != nil {
		return err
	}

	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := migrate.Up(ctx, dsn, src, waitLimit, log); err != nil {
		return err
	}

	// As tools for backups, upgrades and change capture do it: a change of a table without a replica identity fails then.
	err = onAdmin(ctx, dsn, func(conn *sql.Conn) error {
		return run(ctx, conn, "CREATE PUBLICATION everything FOR ALL TABLES")
	})
	if err != nil {
		return err
	}

	// A database with sessions cannot be copied. CREATE DATABASE waits for sessions that are ending.
	return run(ctx, conn, "ALTER DATABASE "+quoted+" IS_TEMPLATE true ALLOW_CONNECTIONS false")
}

func drop(ctx context.Context, conn *sql.Conn, name string) error {
	return run(ctx, conn, "DROP DATABASE IF EXISTS "+pq.QuoteIdentifier(name)+" WITH (FORCE)")
}

// onAdmin runs f on one session of a database, mostly that of maintenance.
func onAdmin(ctx context.Context, admin string, f func(conn *sql.Conn) error) error {
	connector, err := pq.NewConnector(admin)
	if err != nil {
		return fmt.Errorf("%s: %w", URLVariable, err)
	}
	return localpg.OnSession(ctx, connector, f)
}

func run(ctx context.Context, conn *sql.Conn, statement string, args ...any) error {
	if _, err := conn.ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// withDatabase replaces the database in a postgres:// URL.
func withDatabase(dsn, name string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return "", fmt.Errorf("%s must be a URL that begins with postgres://", URLVariable)
	}
	u.Path = "/" + name
	return u.String(), nil
}

var unplain = regexp.MustCompile(`[^a-z0-9]+`)

// newName returns the name of a database for the test.
func newName(t testing.TB) string {
	const longest = 63
	name := strings.ToLower(testPrefix + rand.Text()[:8] + "_" + t.Name())
	name = unplain.ReplaceAllString(name, "_")
	return strings.TrimRight(name[:min(len(name), longest)], "_")
}
