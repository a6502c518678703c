package guest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lib/pq"
)

// oldest is the oldest PostgreSQL that the services run on: they have the server look
// whether a waiting client is still there (client_connection_check_interval).
const oldest = 14

// facts are what is to be known of a server.
type facts struct {
	Version     int // as server_version_num
	VersionName string
	Super, CreateDB, CreateRole,
	Inherit bool // of the administrator
	ReadOnly       bool // a standby, or told to be
	MaxConnections int
	Free           int // connections that nobody has and nothing is reserved for
	Activity       bool
}

// lookSQL is one statement. Who may not see what others do still sees that they are there.
const lookSQL = `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		r.rolsuper, r.rolcreatedb, r.rolcreaterole, r.rolinherit,
		pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
		current_setting('max_connections')::int,
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- coalesce(current_setting('reserved_connections', true)::int, 0)
			- (SELECT count(*)::int FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND pid <> pg_backend_pid()),
		current_setting('track_activities')::bool
	FROM pg_roles r WHERE r.rolname = current_user`

// Look finds out whether the server can take a run that opens up to connections at
// once. What is against it comes as a [RefusalError].
func (s *Server) Look(ctx context.Context, connections int) error {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := patiently(bounded, func() error { return s.look(bounded, connections) })
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("look at the server: %w", context.Cause(ctx))
	}
	if errors.Is(err, errSilent) {
		return s.unreachable(err)
	}
	s.connections = connections
	return err
}

// lookTimeout bounds a look; connectTimeout what one connection may take, unless the
// URL says something else.
const (
	lookTimeout    = 20 * time.Second
	connectTimeout = 5 * time.Second
)

func (s *Server) look(ctx context.Context, connections int) error {
	err := s.inConn(ctx, func(conn *sql.Conn) error {
		f := &s.facts
		return conn.QueryRowContext(ctx, lookSQL).Scan(&f.Version, &f.VersionName, &f.Super, &f.CreateDB, &f.CreateRole, &f.Inherit,
			&f.ReadOnly, &f.MaxConnections, &f.Free, &f.Activity)
	})
	if err != nil {
		return s.unreachable(err)
	}
	if err := s.facts.fit(connections); err != nil {
		return err
	}
	// As the services will do it. A pooler refuses that.
	u := s.url
	query := u.Query()
	query.Set("idle_in_transaction_session_timeout", "60000")
	u.RawQuery = query.Encode()
	if err := inConn(ctx, u.String(), func(conn *sql.Conn) error { return conn.PingContext(ctx) }); err != nil {
		return refuse("%s does not take what a session is told at its start (%s): is it a pooler? Name the server itself", s.name, s.said(err))
	}
	return nil
}

// fit says what is against a run that opens up to connections at once.
func (f facts) fit(connections int) error {
	const perMajor = 10_000
	switch {
	case f.Version < oldest*perMajor:
		return refuse("the server is PostgreSQL %s; the services need %d or newer", f.VersionName, oldest)
	case f.ReadOnly:
		return refuse("the server takes no changes: it is a standby, or default_transaction_read_only is on")
	case !f.Super && (!f.CreateDB || !f.CreateRole):
		return refuse("the role may not make databases and roles: it needs CREATEDB and CREATEROLE, or must be a superuser")
	case !f.Super && !f.Inherit:
		return refuse("the role has NOINHERIT: it could not use the rights of the roles that it makes")
	case f.Free < connections+f.headroom():
		return refuse("max_connections=%d leaves %d connections free, and this run may open %d, beyond which %d must stay for others: prove one "+
			"--service at a time, with --replicas 2, or with DB_MAX_OPEN_CONNS=7 in the environment",
			f.MaxConnections, max(f.Free, 0), connections, f.headroom())
	}
	return nil
}

// headroom is how many connections must stay free for others when the run has all of
// its own: a tenth of all, and 5 at least.
func (f facts) headroom() int { return max(f.MaxConnections/10, 5) }

// unreachable is why nobody can look.
func (s *Server) unreachable(err error) error {
	if _, answered := errors.AsType[*pq.Error](err); answered {
		return refuse("%s lets nobody in by this URL (%s)", s.name, s.said(err))
	}
	return refuse("%s cannot be reached (%s)", s.name, s.said(err))
}

// said is an error's text without the password, should a driver ever repeat it.
func (s *Server) said(err error) string {
	text := strings.TrimPrefix(err.Error(), "pq: ")
	if s.password != "" {
		text = strings.ReplaceAll(text, s.password, "...")
	}
	return text
}

// Version says which server it is, for people.
func (s *Server) Version() string { return "PostgreSQL " + s.facts.VersionName + " at " + s.name }

func (s *Server) inConn(ctx context.Context, do func(*sql.Conn) error) error {
	return inConn(ctx, s.url.String(), do)
}

// inConn runs something on a connection of its own.
func inConn(ctx context.Context, dsn string, do func(*sql.Conn) error) (err error) {
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return errors.New("the driver cannot use the URL") // the error may quote the password
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return do(conn)
}
