// Package provision prepares a private PostgreSQL for the services: one
// database for all, and for each service a schema and two roles.
//
//	<service>_owner   owns the schema; migrations run as this role
//	<service>_app     reads and writes rows, and can do nothing else; replicas run as this role
//
// So a replica that is taken over can neither change its tables nor see those
// of another service. The package changes what it finds only where it must, and
// may run again at any time.
package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Schema is what has to be known of a service.
type Schema struct {
	// Name is also the name of its schema and the prefix of its roles.
	Name string
	// HistorySchema holds goose_db_version; Name when empty. When it is another
	// schema it is prepared like the service's own.
	HistorySchema string
	// Roles is what the names of its roles begin with; Name when empty. When it is
	// something else the roles are new, for one run on a server of others: a role of
	// that name that is there makes Prepare fail, and stays as it is.
	Roles string
}

// Access is how the two roles of a service get in. Both are URLs with a
// password: secrets.
type Access struct {
	// Owner is for migrations.
	Owner string
	// App is for replicas.
	App string
}

// lockKey is that of the advisory lock under which roles are made: CREATE ROLE
// by two at once fails for one of them.
const lockKey = 0x726f776c // "rowl"

func (s Schema) owner() string { return cmp.Or(s.Roles, s.Name) + "_owner" }

func (s Schema) app() string { return cmp.Or(s.Roles, s.Name) + "_app" }

// RoleNames are those of the service's roles.
func (s Schema) RoleNames() []string { return []string{s.owner(), s.app()} }

func (s Schema) historySchema() string {
	if s.HistorySchema == "" {
		return s.Name
	}
	return s.HistorySchema
}

func (s Schema) schemas() []string {
	if h := s.historySchema(); h != s.Name {
		return []string{s.Name, h}
	}
	return []string{s.Name}
}

// Database makes the database unless it is there. adminURL is that of a role
// with CREATEDB, in any other database of the server.
func Database(ctx context.Context, adminURL, name string) (err error) {
	db, err := open(adminURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to make the database %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()

	var there bool
	if err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil {
		return fmt.Errorf("look for the database %s: %w", name, err)
	}
	if there {
		return nil
	}
	if _, err := conn.ExecContext(ctx, `CREATE DATABASE `+pq.QuoteIdentifier(name)); err != nil {
		return fmt.Errorf("make the database %s: %w", name, err)
	}
	return nil
}

// Prepare makes the roles and the schema of a service, as far as they are not
// there, and gives the roles new passwords: only the caller of the latest
// Prepare can log in. adminURL is that of a superuser in the services' database,
// or, when s.Roles is set, of the database's owner who has CREATEROLE.
// After the migrations, [Grant] lets the app role at the tables.
func Prepare(ctx context.Context, adminURL string, s Schema) (Access, error) {
	ownerPassword, appPassword := rand.Text(), rand.Text()
	owner, app := pq.QuoteIdentifier(s.owner()), pq.QuoteIdentifier(s.app())

	create := role
	if s.Roles != "" {
		create = newRole
	}
	err := inTx(ctx, adminURL, func(tx *sql.Tx) error {
		if err := create(ctx, tx, s.owner(), ownerPassword); err != nil {
			return err
		}
		if err := create(ctx, tx, s.app(), appPassword); err != nil {
			return err
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
	ownerURL, err := as(adminURL, s.owner(), ownerPassword)
	if err != nil {
		return Access{}, err
	}
	appURL, err := as(adminURL, s.app(), appPassword)
	if err != nil {
		return Access{}, err
	}
	return Access{Owner: ownerURL, App: appURL}, nil
}

// Grant lets the app role read and write the rows of all tables of the service,
// but only read the history of the migrations. It is for after the migrations:
// a table that is made later needs another Grant. adminURL is as for [Prepare].
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
		return execAll(ctx, tx, `REVOKE INSERT, UPDATE, DELETE ON `+pq.QuoteIdentifier(s.historySchema())+`.goose_db_version FROM `+app)
	})
	if err != nil {
		return fmt.Errorf("rights of %s: %w", s.app(), err)
	}
	return nil
}

// role makes a login role or renews its password.
func role(ctx context.Context, tx *sql.Tx, name, password string) error {
	var there bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, name).Scan(&there); err != nil {
		return fmt.Errorf("look for the role %s: %w", name, err)
	}
	verb := "CREATE"
	if there {
		verb = "ALTER"
	}
	return execAll(ctx, tx, verb+` ROLE `+pq.QuoteIdentifier(name)+
		` LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD `+pq.QuoteLiteral(password))
}

// newRoleLife is how long a role of a run can log in, should nobody be left to drop it.
const newRoleLife = 24 * time.Hour

// newRole makes a login role that is not there, lets it into the database, which may be
// closed to everybody else, and lets an administrator who is no superuser do what the
// role may do.
func newRole(ctx context.Context, tx *sql.Tx, name, password string) error {
	until := time.Now().Add(newRoleLife).UTC().Format(time.RFC3339)
	if err := execAll(ctx, tx, `CREATE ROLE `+pq.QuoteIdentifier(name)+
		` LOGIN PASSWORD `+pq.QuoteLiteral(password)+` VALID UNTIL `+pq.QuoteLiteral(until)); err != nil {
		return err
	}
	var super bool
	var database string
	err := tx.QueryRowContext(ctx, `SELECT rolsuper, current_database() FROM pg_roles WHERE rolname = current_user`).Scan(&super, &database)
	if err != nil {
		return fmt.Errorf("look at the administrator's role: %w", err)
	}
	if err := execAll(ctx, tx, `GRANT CONNECT ON DATABASE `+pq.QuoteIdentifier(database)+` TO `+pq.QuoteIdentifier(name)); err != nil {
		return err
	}
	if super {
		return nil
	}
	return execAll(ctx, tx, `GRANT `+pq.QuoteIdentifier(name)+` TO CURRENT_USER`)
}

func execAll(ctx context.Context, tx *sql.Tx, statements ...string) error {
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err //nolint:wrapcheck // the statement may hold a password; the callers say what was to be done
		}
	}
	return nil
}

func inTx(ctx context.Context, adminURL string, fn func(tx *sql.Tx) error) (err error) {
	db, err := open(adminURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
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
}

func open(adminURL string) (*sql.DB, error) {
	connector, err := sqldb.Connector(adminURL) // which heeds a context's deadline though the server be silent
	if err != nil {
		return nil, errors.New("the administrator's URL of the database cannot be read") // the error may quote the password
	}
	return sql.OpenDB(connector), nil
}

// as is the URL with another role.
func as(adminURL, name, password string) (string, error) {
	u, err := url.Parse(adminURL)
	if err != nil {
		return "", errors.New("the administrator's URL of the database cannot be read")
	}
	u.User = url.UserPassword(name, password)
	return u.String(), nil
}

// SchemaOf returns the schema of a service.
func SchemaOf(s services.Service) Schema { return Schema{Name: s.Name, HistorySchema: s.HistorySchema} }
