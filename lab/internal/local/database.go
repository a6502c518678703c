package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Schema is what a service needs in a database: a schema and two roles.
//
//	<service>_owner   owns the schema; migrations run as this role
//	<service>_app     reads and writes rows, and can do nothing else; replicas run as this role
//
// So a replica can neither change its tables nor see those of another service.
type Schema struct {
	// Name is the name of the schema and the prefix of the roles.
	Name string
	// HistorySchema holds goose_db_version; Name when empty.
	HistorySchema string
	// Roles is the prefix of the roles instead of Name. The roles are then new, for one run on a server of others, and
	// end after a day: where a role of that name exists Prepare fails.
	Roles string
	// LockTimeout is the roles' lock_timeout on each node of a Citus cluster, whose workers do not see that of a session;
	// 0 on one server.
	LockTimeout time.Duration
}

// SchemaOf returns the schema of a service.
func SchemaOf(s targets.Service) Schema { return Schema{Name: s.Name, HistorySchema: s.HistorySchema} }

// lockKey is the advisory lock under which roles are made: of two CREATE ROLE at once one fails.
const lockKey = 0x726f776c // "rowl"

// newRoleLife is the time for which a role for one run can log in.
const newRoleLife = 24 * time.Hour

// RoleNames returns the names of the owner and of the app role.
func (s Schema) RoleNames() []string {
	prefix := cmp.Or(s.Roles, s.Name)
	return []string{prefix + "_owner", prefix + "_app"}
}

func (s Schema) owner() string { return s.RoleNames()[0] }

func (s Schema) app() string { return s.RoleNames()[1] }

func (s Schema) historySchema() string { return cmp.Or(s.HistorySchema, s.Name) }

func (s Schema) schemas() []string { return slices.Compact([]string{s.Name, s.historySchema()}) }

// Database makes the database unless it exists. adminURL names a role with CREATEDB, in any other database of the
// server.
func Database(ctx context.Context, adminURL, name string) error {
	var exists bool
	err := Read(ctx, adminURL,
		`SELECT EXISTS (SELECT FROM pg_database WHERE datname = `+pq.QuoteLiteral(name)+`)`, &exists)
	if err == nil && !exists {
		err = Send(ctx, adminURL, `CREATE DATABASE `+pq.QuoteIdentifier(name))
	}
	if err != nil {
		return fmt.Errorf("make the database %s: %w", name, err)
	}
	return nil
}

// Prepare makes the roles and the schema unless they exist, and gives the roles new passwords. It returns the URLs of
// both: owner is for migrations, and app for replicas. adminURL names a superuser in the services' database or, with
// s.Roles, of the database's owner who has CREATEROLE. After the migrations, call [Grant].
func Prepare(ctx context.Context, adminURL string, s Schema) (owner, app string, err error) {
	u, err := url.Parse(adminURL)
	if err != nil {
		return "", "", errAdminURL
	}
	database := pq.QuoteIdentifier(strings.TrimPrefix(u.Path, "/"))
	var statements, urls []string
	for _, name := range s.RoleNames() {
		password, role := rand.Text(), pq.QuoteIdentifier(name)
		u.User = url.UserPassword(name, password)
		urls = append(urls, u.String())
		statements = append(statements, s.makeRole(role, password),
			`GRANT CONNECT ON DATABASE `+database+` TO `+role,
			`GRANT `+role+` TO CURRENT_USER`) // an owner who is no superuser makes schemas for it
		if s.LockTimeout > 0 {
			statements = append(statements, onCitus(name, password, s.LockTimeout)...)
		}
	}

	for _, name := range s.schemas() {
		schema := pq.QuoteIdentifier(name)
		statements = append(statements,
			`CREATE SCHEMA IF NOT EXISTS `+schema+` AUTHORIZATION `+pq.QuoteIdentifier(s.owner()),
			`GRANT USAGE ON SCHEMA `+schema+` TO `+pq.QuoteIdentifier(s.app()))
	}

	return urls[0], urls[1], inTx(ctx, adminURL, statements)
}

// makeRole returns the statements that make a login role, or renew the password of one that is not for one run.
func (s Schema) makeRole(role, password string) string {
	options := ` LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD ` + pq.QuoteLiteral(password)
	if s.Roles != "" {
		until := time.Now().Add(newRoleLife).UTC().Format(time.RFC3339)
		return `CREATE ROLE ` + role + options + ` VALID UNTIL ` + pq.QuoteLiteral(until)
	}
	return `DO $$ BEGIN CREATE ROLE ` + role + `; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
		ALTER ROLE ` + role + options
}

// onCitus returns the statements that let the coordinator log in to workers as the role. It passes all others on.
func onCitus(name, password string, lockTimeout time.Duration) []string {
	role, access := pq.QuoteLiteral(name), pq.QuoteLiteral("password="+password)
	return []string{
		fmt.Sprintf(`ALTER ROLE %s SET lock_timeout = %d`, pq.QuoteIdentifier(name), lockTimeout.Milliseconds()),
		`DELETE FROM pg_dist_authinfo WHERE rolename = ` + role,
		`INSERT INTO pg_dist_authinfo VALUES (0, ` + role + `, ` + access + `)`,
	}
}

// Grant lets the app role read and write the rows of all tables of the service, and read the history of the migrations.
// It covers the tables that exist. adminURL is as for [Prepare].
func Grant(ctx context.Context, adminURL string, s Schema) error {
	app := pq.QuoteIdentifier(s.app())
	statements := make([]string, 0, 2*len(s.schemas())+1)
	for _, name := range s.schemas() {
		schema := pq.QuoteIdentifier(name)
		statements = append(statements,
			`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA `+schema+` TO `+app,
			`GRANT USAGE ON ALL SEQUENCES IN SCHEMA `+schema+` TO `+app)
	}
	history := pq.QuoteIdentifier(s.historySchema()) + `.goose_db_version`
	return inTx(ctx, adminURL, append(statements, `REVOKE INSERT, UPDATE, DELETE ON `+history+` FROM `+app))
}

// inTx sends the statements at once, which makes them one transaction, under the lock.
func inTx(ctx context.Context, adminURL string, statements []string) error {
	return Send(ctx, adminURL, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d);", lockKey)+strings.Join(statements, ";"))
}

// errAdminURL stands for errors that may quote the password.
var errAdminURL = errors.New("the administrator's URL of the database cannot be read")

// WithConn runs fn with one connection to a database: database/sql may repeat what it sends through *sql.DB. The
// connector observes the context's deadline even where the server is silent.
func WithConn(ctx context.Context, adminURL string, fn func(conn *sql.Conn) error) (err error) {
	connector, err := sqldb.Connector(adminURL, "", "")
	if err != nil {
		return errAdminURL
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return fn(conn)
}

// Send sends statements to a database one after the other, each once and in its own transaction.
func Send(ctx context.Context, url string, statements ...string) error {
	return WithConn(ctx, url, func(conn *sql.Conn) error {
		for _, statement := range statements {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// Read reads the one row of a query into the variables.
func Read(ctx context.Context, url, query string, into ...any) error {
	return WithConn(ctx, url, func(conn *sql.Conn) error { return conn.QueryRowContext(ctx, query).Scan(into...) })
}

// Execute sends one statement, once, outside of a transaction.
func Execute(ctx context.Context, db *sqldb.DB, statement string) error {
	_, err := db.Once().ExecContext(ctx, statement)
	return err
}

// StartPostgres starts a server with a database.
func StartPostgres(ctx context.Context, database string, o localpg.Options) (*localpg.Server, error) {
	server, err := localpg.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := Database(ctx, server.URL("postgres"), database); err != nil {
		return nil, errors.Join(err, server.Stop(ctx))
	}
	return server, nil
}

// Provision makes roles and schema, runs the migrations as the owner, and leaves in the environment of the service's
// processes the role that can only change rows.
func Provision(ctx context.Context, binary, adminURL string, schema Schema, environ map[string]string) error {
	owner, app, err := Prepare(ctx, adminURL, schema)
	if err == nil {
		environ["MIGRATE_ON_START"], environ["DATABASE_URL"] = "false", owner
		err = Migrate(ctx, binary, environ)
	}
	if err == nil {
		environ["DATABASE_URL"] = app
		err = Grant(ctx, adminURL, schema)
	}
	if err != nil {
		return fmt.Errorf("roles and tables of %s: %w", schema.Name, err)
	}
	return nil
}

// Environ returns the environment of processes on a server of the lab: a copy without the variables that are about
// another server, and without INTERNAL_HTTP_ADDR, because replicas on one machine need an address each.
func Environ(environ map[string]string) map[string]string {
	env := maps.Clone(environ)
	maps.DeleteFunc(env, func(name, _ string) bool {
		return name == "DB_POOLER" || name == "INTERNAL_HTTP_ADDR" || strings.HasPrefix(name, "PG") ||
			strings.HasSuffix(name, "DATABASE_URL") || strings.HasSuffix(name, "DATABASE_URI")
	})
	return env
}

// Migrate runs `<binary> migrate` with the environment. The error holds the last line that it printed.
func Migrate(ctx context.Context, binary string, environ map[string]string) error {
	cmd := exec.CommandContext(ctx, binary, "migrate")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = Variables(environ)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return fmt.Errorf("%s migrate: %w (%s)", filepath.Base(binary), err, lines[len(lines)-1])
	}
	return nil
}

// OnBoth returns the URL of a database on two servers of this machine, with which a client finds the one that takes
// writes. one is the URL of the database on any of them.
func OnBoth(one string, first, second int) string {
	before, rest, _ := strings.Cut(one, "@")
	_, rest, _ = strings.Cut(rest, "/")
	return fmt.Sprintf("%s@/%s&host=127.0.0.1,127.0.0.1&port=%d,%d&target_session_attrs=read-write",
		before, rest, first, second)
}
