// Package remote runs the lab on a PostgreSQL server that others use too.
//
// [Open] reads the URL and checks that the server can take the run. [Session.Create]
// makes a database for it, whose name is also the prefix of the run's roles, and
// [Session.Drop] drops both. Nothing else on the server is changed: no setting, role
// or database of others. No error holds a password.
package remote

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Prefix begins the names of everything that a run makes.
const Prefix = "rowlock_prove_"

// Session is a run on a server.
type Session struct {
	// Name is the run's database, with which the roles' names begin.
	Name string
	// Server names the server for people.
	Server string
	// Admin is the administrator's URL in the run's database.
	Admin string
	// TLS is how a proxy connects to the server; nil is without.
	TLS *tls.Config
	// Notes say what cannot be checked on this server.
	Notes []string

	url         *url.URL // of the administrator, in the database that was named
	connections int
	roles       []string
}

// facts hold what the run needs to know about a server.
type facts struct {
	Version        string `db:"version"`
	CanCreate      bool   `db:"can_create"`
	ReadOnly       bool   `db:"read_only"` // a standby, or by default_transaction_read_only
	MaxConnections int    `db:"max_connections"`
	Free           int    `db:"free"` // connections that are neither used nor reserved
	Activity       bool   `db:"activity"`
}

const factsSQL = `SELECT current_setting('server_version') AS version,
		rolsuper OR rolcreatedb AND rolcreaterole AND rolinherit AS can_create,
		pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS read_only,
		current_setting('max_connections')::int AS max_connections,
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- coalesce(current_setting('reserved_connections', true)::int, 0)
			- (SELECT count(*)::int FROM pg_stat_activity
				WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND pid <> pg_backend_pid()) AS free,
		current_setting('track_activities')::bool AS activity
	FROM pg_roles WHERE rolname = current_user`

// Open reads a URL of the form postgres://user@host:5432/database?sslmode=disable and
// checks that the server can take a run of up to connections. User and password may come
// from PGUSER, PGPASSWORD and ~/.pgpass. The error says in a sentence what is against it.
func Open(ctx context.Context, dsn string, connections int) (*Session, error) {
	u, secure, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	s := &Session{Name: Prefix + strings.ToLower(rand.Text()[:16]), TLS: secure, url: u, connections: connections}
	inside := *u
	inside.Path = "/" + s.Name
	s.Admin = inside.String()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var f facts
	// Connected as the services connect: a pooler, and a server before PostgreSQL 14, refuse their settings of a session.
	err = s.onServer(ctx, func(db *sqldb.DB) error { return db.GetContext(ctx, &f, factsSQL) })
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used (%s); it must be a PostgreSQL 14 or newer, and no pooler",
			u.Host, reason(err))
	}

	s.Server = "PostgreSQL " + f.Version + " at " + u.Host
	if !f.Activity {
		s.Notes = append(s.Notes, "track_activities is off: whether connections are idle after the run was not checked")
	}
	return s, f.check(connections)
}

// check refuses a server that cannot take a run of up to connections. A tenth of all
// connections stays free for others, 5 at least.
func (f facts) check(connections int) error {
	headroom := max(f.MaxConnections/10, 5)
	switch {
	case f.ReadOnly:
		return errors.New("the server takes no changes: it is a standby, or default_transaction_read_only is on")
	case !f.CanCreate:
		return errors.New("the role needs CREATEDB, CREATEROLE and INHERIT, or must be a superuser")
	case f.Free < connections+headroom:
		return fmt.Errorf("max_connections=%d leaves %d connections free; this run may open %d, and %d stay for others: "+
			"prove one --service at a time, with --replicas 2, or with DB_MAX_OPEN_CONNS=7 in the environment",
			f.MaxConnections, max(f.Free, 0), connections, headroom)
	}
	return nil
}

// Create makes the run's database from template0. It takes no more connections than Open was given, and only the run's
// roles may connect to it. After an error there may still be something to drop.
func (s *Session) Create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // a copy of some 8 MB
	defer cancel()
	err := s.onServer(ctx, func(db *sqldb.DB) error {
		name := pq.QuoteIdentifier(s.Name)
		for _, statement := range []string{
			fmt.Sprintf(`CREATE DATABASE %s TEMPLATE template0 CONNECTION LIMIT %d`, name, s.connections),
			`REVOKE CONNECT ON DATABASE ` + name + ` FROM PUBLIC`,
		} {
			if err := local.Execute(ctx, db, statement); err != nil {
				return err
			}
		}

		// Shorter than the services wait for a lock, so that the server reports a deadlock as one.
		err := local.Execute(ctx, db, `ALTER DATABASE `+name+` SET deadlock_timeout = '5ms'`)
		if e, ok := errors.AsType[*sqldb.Error](err); ok && e.SQLState == "42501" {
			s.Notes = append(s.Notes,
				"only a superuser may shorten deadlock_timeout: a deadlock may show as a lock timeout instead")
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make the database %s: %w", s.Name, err)
	}
	return nil
}

// Schema returns the schema with roles of this run, which Drop drops.
func (s *Session) Schema(one local.Schema) local.Schema {
	one.Roles = s.Name + "_" + one.Name
	s.roles = append(s.roles, one.RoleNames()...)
	return one
}

// Drop drops the database and the roles, and tries again until ctx ends. The error names
// what may still be there.
func (s *Session) Drop(ctx context.Context) error {
	left := append([]string{s.Name}, s.roles...)
	for {
		err := s.onServer(ctx, func(db *sqldb.DB) (all error) {
			left = slices.DeleteFunc(left, func(name string) bool {
				statement := `DROP ROLE IF EXISTS ` + pq.QuoteIdentifier(name)
				if name == s.Name {
					// FORCE ends the sessions that this role may end: an agent's that looks into every database, say.
					statement = `DROP DATABASE IF EXISTS ` + pq.QuoteIdentifier(name) + ` WITH (FORCE)`
				}
				err := local.Execute(ctx, db, statement)
				all = errors.Join(all, err)
				return err == nil
			})
			return all
		})
		if err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("may still be on %s, and has to be dropped by hand: %s (%s)",
				s.url.Host, strings.Join(left, ", "), reason(err))
		case <-time.After(time.Second / 2):
		}
	}
}

// onServer calls do with a pool of one connection to the database that was named.
func (s *Session) onServer(ctx context.Context, do func(db *sqldb.DB) error) (err error) {
	// On a standby too: check explains more than the driver's refusal.
	toAny, query := *s.url, s.url.Query()
	query.Set("target_session_attrs", "any")
	toAny.RawQuery = query.Encode()
	db, err := sqldb.Open(ctx, sqldb.Settings{
		URL: toAny.String(), ApplicationName: "rowlock prove", MaxOpenConns: 1, StatementTimeout: time.Minute,
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return do(db)
}

// reason returns the driver's words without the outcome that sqldb puts before them.
func reason(err error) string {
	if e, ok := errors.AsType[*sqldb.Error](err); ok {
		err = e.Unwrap()
	}
	return strings.TrimPrefix(err.Error(), "pq: ")
}

// parse checks the URL and writes into it what the driver would take from the environment.
// It returns how the run's proxies connect to the server, too; nil is without TLS.
func parse(dsn string) (*url.URL, *tls.Config, error) {
	u, err := url.Parse(dsn)
	if err != nil || !slices.Contains([]string{"postgres", "postgresql"}, u.Scheme) ||
		u.Hostname() == "" || strings.ContainsAny(u.Host, ",/") {
		// err repeats the password.
		const form = "postgres://user@host:5432/database?sslmode=disable"
		return nil, nil, errors.New("it is no URL of the form " + form + " with one host")
	}

	query := u.Query()
	for name := range query {
		if !slices.Contains([]string{"sslmode", "sslrootcert", "connect_timeout"}, name) {
			return nil, nil, fmt.Errorf("the parameter %q is not supported: not every program of the run would heed it", name)
		}
	}

	cfg, err := pq.NewConfig(dsn)
	if err != nil {
		// err may repeat the password.
		return nil, nil, errors.New("the driver cannot use it, or one of the variables PG... that go with it")
	}

	if cfg.Hostaddr.IsValid() || cfg.Service != "" {
		return nil, nil, errors.New("PGHOSTADDR and PGSERVICE must not be set: the URL alone names the server")
	}
	u.User = url.User(cfg.User)
	if cfg.Password != "" { // else ~/.pgpass may have one
		u.User = url.UserPassword(cfg.User, cfg.Password)
	}

	u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(int(cfg.Port)))
	secure, err := tlsConfig(query, u.Hostname())
	return u, secure, err
}

func tlsConfig(query url.Values, host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	switch query.Get("sslmode") {
	case "disable":
		return nil, nil
	case "require":
		config.InsecureSkipVerify = true // encryption without a check of the server's name
		return config, nil
	case "verify-full":
	default:
		return nil, errors.New("it must say sslmode=disable, require or verify-full")
	}
	if root := query.Get("sslrootcert"); root != "" && root != "system" {
		text, err := os.ReadFile(root)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("sslrootcert names %s, from which no certificate can be read", root)
		}
	}
	return config, nil
}
