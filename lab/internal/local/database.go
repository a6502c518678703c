package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/services"
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
}

// SchemaOf returns the schema of a service.
func SchemaOf(s services.Service) Schema { return Schema{Name: s.Name, HistorySchema: s.HistorySchema} }

// Access holds the URLs of the two roles. Both contain a password.
type Access struct {
	// Owner is for migrations.
	Owner string
	// App is for replicas.
	App string
}

// lockKey is the advisory lock under which roles are made: of two CREATE ROLE at once one fails.
const lockKey = 0x726f776c // "rowl"

// newRoleLife is how long a role for one run can log in.
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

// Database makes the database unless it exists. adminURL is that of a role with CREATEDB, in any other database of the
// server.
func Database(ctx context.Context, adminURL, name string) error {
	return WithConn(ctx, adminURL, func(conn *sql.Conn) error {
		var exists bool
		err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists)
		if err == nil && !exists {
			_, err = conn.ExecContext(ctx, `CREATE DATABASE `+pq.QuoteIdentifier(name))
		}
		if err != nil {
			return fmt.Errorf("make the database %s: %w", name, err)
		}
		return nil
	})
}

// Prepare makes the roles and the schema unless they exist, and gives the roles new passwords. adminURL is that of a
// superuser in the services' database or, with s.Roles, of the database's owner who has CREATEROLE. After the
// migrations, call [Grant].
func Prepare(ctx context.Context, adminURL string, s Schema) (Access, error) {
	passwords := []string{rand.Text(), rand.Text()}
	owner, app := pq.QuoteIdentifier(s.owner()), pq.QuoteIdentifier(s.app())
	err := inTx(ctx, adminURL, func(tx *sql.Tx) error {
		for i, name := range s.RoleNames() {
			if err := s.role(ctx, tx, name, passwords[i]); err != nil {
				return err
			}
		}
		for _, name := range s.schemas() {
			schema := pq.QuoteIdentifier(name)
			if err := execAll(ctx, tx,
				`CREATE SCHEMA IF NOT EXISTS `+schema+` AUTHORIZATION `+owner,
				`GRANT USAGE ON SCHEMA `+schema+` TO `+app,
			); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Access{}, fmt.Errorf("roles and schema of %s: %w", s.Name, err)
	}
	u, err := url.Parse(adminURL)
	if err != nil {
		return Access{}, errAdminURL
	}
	as := func(i int) string {
		u.User = url.UserPassword(s.RoleNames()[i], passwords[i])
		return u.String()
	}
	return Access{Owner: as(0), App: as(1)}, nil
}

// Grant lets the app role read and write the rows of all tables of the service, and read the history of the migrations.
// It covers the tables that exist. adminURL is as for [Prepare].
func Grant(ctx context.Context, adminURL string, s Schema) error {
	app := pq.QuoteIdentifier(s.app())
	err := inTx(ctx, adminURL, func(tx *sql.Tx) error {
		for _, name := range s.schemas() {
			schema := pq.QuoteIdentifier(name)
			if err := execAll(ctx, tx,
				`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA `+schema+` TO `+app,
				`GRANT USAGE ON ALL SEQUENCES IN SCHEMA `+schema+` TO `+app,
			); err != nil {
				return err
			}
		}
		return execAll(ctx, tx,
			`REVOKE INSERT, UPDATE, DELETE ON `+pq.QuoteIdentifier(s.historySchema())+`.goose_db_version FROM `+app)
	})
	if err != nil {
		return fmt.Errorf("rights of %s: %w", s.app(), err)
	}
	return nil
}

// role makes a login role, or renews the password of one that is not for one run. The role may connect to the database,
// and an administrator who is no superuser becomes its member.
func (s Schema) role(ctx context.Context, tx *sql.Tx, name, password string) error {
	var exists, super bool
	var database string
	if err := tx.QueryRowContext(
		ctx,
		`SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1), rolsuper, current_database()
		FROM pg_roles WHERE rolname = current_user`,
		name,
	).Scan(&exists, &super, &database); err != nil {
		return fmt.Errorf("look for the role %s: %w", name, err)
	}
	role, verb, until := pq.QuoteIdentifier(name), "CREATE", ""
	if s.Roles != "" {
		until = ` VALID UNTIL ` + pq.QuoteLiteral(time.Now().Add(newRoleLife).UTC().Format(time.RFC3339))
	} else if exists {
		verb = "ALTER"
	}
	statements := []string{
		verb + ` ROLE ` + role + ` LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD ` +
			pq.QuoteLiteral(password) + until,
		`GRANT CONNECT ON DATABASE ` + pq.QuoteIdentifier(database) + ` TO ` + role,
	}
	if !super {
		statements = append(statements, `GRANT `+role+` TO CURRENT_USER`)
	}
	return execAll(ctx, tx, statements...)
}

func execAll(ctx context.Context, tx *sql.Tx, statements ...string) error {
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err //nolint:wrapcheck // the statement may hold a password; the callers name the purpose
		}
	}
	return nil
}

// inTx runs fn in a transaction that holds the lock.
func inTx(ctx context.Context, adminURL string, fn func(tx *sql.Tx) error) error {
	return WithConn(ctx, adminURL, func(conn *sql.Conn) error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		_, err = tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lockKey)
		if err == nil {
			err = fn(tx)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}

// errAdminURL stands for errors that may quote the password.
var errAdminURL = errors.New("the administrator's URL of the database cannot be read")

// WithConn runs fn with one connection to a database: database/sql may repeat what it sends through *sql.DB. The
// connector observes the context's deadline even where the server is silent.
func WithConn(ctx context.Context, adminURL string, fn func(conn *sql.Conn) error) (err error) {
	connector, err := sqldb.Connector(adminURL)
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
