// Package remote runs the lab on a PostgreSQL server that others use too.
//
// [Open] reads the URL and checks that the server can take the run. [Server.Create]
// makes a database for it, whose name is also the prefix of the run's roles, and
// [Session.Drop] drops both. Nothing else on the server is changed: no setting, role
// or database of others. No error holds a password.
package remote

import (
	"context"
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

	"github.com/rowlock/rowlock/platform/sqldb"
)

// RefusalError says in a sentence why a server cannot take the run.
type RefusalError struct{ text string }

func (r RefusalError) Error() string { return r.text }

func refuse(format string, args ...any) error { return RefusalError{fmt.Sprintf(format, args...)} }

// Server names a server that can take the run.
type Server struct {
	url         *url.URL // of the administrator, in the database that was named
	tls         *tls.Config
	facts       facts
	connections int
}

// facts hold what has to be known of a server.
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
// from PGUSER, PGPASSWORD and ~/.pgpass. What is against the run is a [RefusalError].
func Open(ctx context.Context, dsn string, connections int) (*Server, error) {
	s := &Server{connections: connections}
	if err := s.parse(dsn); err != nil {
		return nil, err
	}
	checking, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	// Connected as the services connect: a pooler, and a server before PostgreSQL 14, refuse their settings of a session.
	err := s.onServer(checking, func(db *sqldb.DB) error { return db.GetContext(checking, &s.facts, factsSQL) })
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("check the server: %w", context.Cause(ctx))
	case err != nil:
		return nil, refuse("%s cannot be used (%s); it must be a PostgreSQL 14 or newer, and no pooler",
			s.url.Host, reason(err))
	}
	return s, s.facts.check(connections)
}

// parse checks the URL and writes into it what the driver would take from the environment.
func (s *Server) parse(dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil || !slices.Contains([]string{"postgres", "postgresql"}, u.Scheme) ||
		u.Hostname() == "" || strings.ContainsAny(u.Host, ",/") {
		// err repeats the password.
		return refuse("it is no URL of the form postgres://user@host:5432/database?sslmode=disable with one host")
	}
	query := u.Query()
	for name := range query {
		if !slices.Contains([]string{"sslmode", "sslrootcert", "connect_timeout"}, name) {
			return refuse("the parameter %q is not supported: not every program of the run would heed it", name)
		}
	}
	cfg, err := pq.NewConfig(dsn)
	if err != nil {
		// err may repeat the password.
		return refuse("the driver cannot use it, or one of the variables PG... that go with it")
	}
	if cfg.Hostaddr.IsValid() || cfg.Service != "" {
		return refuse("PGHOSTADDR and PGSERVICE must not be set: the URL alone names the server")
	}
	if u.User = url.User(cfg.User); cfg.Password != "" { // else ~/.pgpass may have one
		u.User = url.UserPassword(cfg.User, cfg.Password)
	}
	u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(int(cfg.Port)))
	s.url = u
	s.tls, err = tlsConfig(query, u.Hostname())
	return err
}

// tlsConfig returns how the run's proxies connect to the server; nil is without TLS.
func tlsConfig(query url.Values, host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	switch query.Get("sslmode") {
	case "disable":
		return nil, nil //nolint:nilnil // no TLS is an answer here
	case "require":
		config.InsecureSkipVerify = true // encryption without a check of the server's name
		return config, nil
	case "verify-full":
	default:
		return nil, refuse("it must say sslmode=disable, require or verify-full")
	}
	if root := query.Get("sslrootcert"); root != "" && root != "system" {
		text, err := os.ReadFile(root)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, refuse("sslrootcert names %s, from which no certificate can be read", root)
		}
	}
	return config, nil
}

// check refuses a server that cannot take a run of up to connections. A tenth of all
// connections stays free for others, 5 at least.
func (f facts) check(connections int) error {
	headroom := max(f.MaxConnections/10, 5)
	switch {
	case f.ReadOnly:
		return refuse("the server takes no changes: it is a standby, or default_transaction_read_only is on")
	case !f.CanCreate:
		return refuse("the role needs CREATEDB, CREATEROLE and INHERIT, or must be a superuser")
	case f.Free < connections+headroom:
		return refuse("max_connections=%d leaves %d connections free; this run may open %d, and %d stay for others: "+
			"prove one --service at a time, with --replicas 2, or with DB_MAX_OPEN_CONNS=7 in the environment",
			f.MaxConnections, max(f.Free, 0), connections, headroom)
	}
	return nil
}

// TLS returns how a proxy connects to the server; nil is without TLS.
func (s *Server) TLS() *tls.Config { return s.tls }

// String names the server for people.
func (s *Server) String() string { return "PostgreSQL " + s.facts.Version + " at " + s.url.Host }

// onServer calls do with a pool of one connection to the database that was named.
func (s *Server) onServer(ctx context.Context, do func(db *sqldb.DB) error) (err error) {
	db, err := sqldb.Open(ctx, sqldb.Settings{
		URL: s.url.String(), ApplicationName: "rowlock prove", MaxOpenConns: 1, StatementTimeout: time.Minute,
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
