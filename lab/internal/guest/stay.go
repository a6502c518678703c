package guest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
)

// Prefix is what the names of everything begin with that a run makes.
const Prefix = "rowlock_prove_"

// Stay is a run's time on a server.
type Stay struct {
	server    *Server
	database  string   // its name is also what the names of the roles begin with; "" when there surely is none
	roles     []string // that there may be
	deadlocks string
}

// enterTimeout bounds the making of the database; it is a copy of some 8 MB.
const enterTimeout = time.Minute

// Enter makes the run's database: a copy of template0, which holds nothing of others
// and which nobody can be connected to. It takes no more connections than Look was
// told, and none of roles that are not the run's. When it fails there may be something
// to drop all the same: the stay is never nil.
func (s *Server) Enter(ctx context.Context) (*Stay, error) {
	name := Prefix + strings.ToLower(rand.Text()[:10])
	return s.enter(ctx, name)
}

func (s *Server) enter(ctx context.Context, name string) (*Stay, error) {
	ctx, cancel := context.WithTimeout(ctx, enterTimeout)
	defer cancel()
	made := &Stay{server: s, database: name}
	err := patiently(ctx, func() error { return made.build(ctx) })
	if errors.Is(err, errSilent) {
		made = &Stay{server: s, database: name} // the other one still changes
	}
	return made, err
}

// build makes the database. Names that are there belong to others, and would be dropped
// in the end.
func (s *Stay) build(ctx context.Context) error {
	return s.server.inConn(ctx, func(conn *sql.Conn) error {
		name := s.database
		var taken bool
		err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)
			OR EXISTS (SELECT FROM pg_roles WHERE starts_with(rolname, $1))`, name).Scan(&taken)
		if err != nil {
			return fmt.Errorf("look for a name: %w", err)
		}
		if taken {
			s.database = ""
			return fmt.Errorf("the name %s, drawn by chance, is taken: start again", name)
		}
		return s.create(ctx, conn)
	})
}

func (s *Stay) create(ctx context.Context, conn *sql.Conn) error {
	database := pq.QuoteIdentifier(s.database)
	_, err := conn.ExecContext(ctx, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE template0 CONNECTION LIMIT %d`, database, s.server.connections))
	if err != nil {
		err = fmt.Errorf("make the database %s: %w", s.database, err)
		if refused, ok := errors.AsType[*pq.Error](err); ok && refused.Code == "42P04" {
			s.database = "" // somebody has made it meanwhile
		}
		return err
	}
	if _, err := conn.ExecContext(ctx, `REVOKE CONNECT ON DATABASE `+database+` FROM PUBLIC`); err != nil {
		return fmt.Errorf("keep others out of the database: %w", err)
	}
	return s.tellDeadlocks(ctx, conn)
}

// Deadlocks count as deadlocks when the server notices them before the services lose
// their patience with a lock.
const (
	deadlockWish = "5ms"
	lockPatience = time.Second
)

// tellDeadlocks sets the database's deadlock_timeout; where that is not allowed, and
// it is too long, there is a note.
func (s *Stay) tellDeadlocks(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `ALTER DATABASE `+pq.QuoteIdentifier(s.database)+` SET deadlock_timeout = '`+deadlockWish+`'`)
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*pq.Error](err); !ok || refused.Code != "42501" {
		return fmt.Errorf("set the database's deadlock_timeout: %w", err)
	}
	var milliseconds int64
	err = conn.QueryRowContext(ctx, `SELECT setting::bigint FROM pg_settings WHERE name = 'deadlock_timeout'`).Scan(&milliseconds)
	if err != nil {
		return fmt.Errorf("read deadlock_timeout: %w", err)
	}
	if there := time.Duration(milliseconds) * time.Millisecond; there >= lockPatience {
		s.deadlocks = fmt.Sprintf("deadlock_timeout is %s, and only a superuser may shorten it: a deadlock of less than that shows "+
			"as a lock timeout and is not counted", there)
	}
	return nil
}

// Deadlocks says why this server does not count all deadlocks; "" when it does.
func (s *Stay) Deadlocks() string { return s.deadlocks }

// Notes say what cannot be looked at on this server.
func (s *Stay) Notes() []string {
	var notes []string
	if s.deadlocks != "" {
		notes = append(notes, s.deadlocks)
	}
	if !s.server.facts.Activity {
		notes = append(notes, "track_activities is off: whether connections are idle after the run was not looked at")
	}
	return notes
}

// Names is what the names of the run's database and roles begin with.
func (s *Stay) Names() string { return s.database }

// Admin is the administrator's URL in the run's database.
func (s *Stay) Admin() string { return s.server.admin(s.database) }

// Service is the service with roles of this run.
func (s *Stay) Service(one local.Schema) local.Schema {
	one.Roles = s.database + "_" + one.Name
	s.roles = append(s.roles, one.RoleNames()...)
	return one
}

// Leave drops the database and the roles, and tries again until ctx ends. left names
// what is still there then, or may be where nobody could look; err says why.
func (s *Stay) Leave(ctx context.Context) (left []string, err error) {
	if s.database == "" {
		return nil, nil
	}
	last := try{left: append([]string{s.database}, s.roles...)}
	for {
		tried := make(chan try, 1)
		go func() { tried <- s.leave(ctx) }()
		// The driver does not hear of ctx's end while the server is silent.
		select {
		case last = <-tried:
		case <-ctx.Done():
			last.err = errors.Join(last.err, ctx.Err())
			return last.left, s.stays(last)
		}
		if len(last.left) == 0 {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			last.err = errors.Join(last.err, ctx.Err())
			return last.left, s.stays(last)
		case <-time.After(time.Second / 2):
		}
	}
}

// try is what came of one try to leave.
type try struct {
	left  []string
	known bool // that all of them are there
	err   error
}

// stays is the error that names what is still there.
func (s *Stay) stays(last try) error {
	how := "may be on the server"
	if last.known {
		how = "still on the server"
	}
	return fmt.Errorf("%s: %s (%s)", how, strings.Join(last.left, ", "), strings.ReplaceAll(s.server.said(last.err), "\n", "; "))
}

// leave is one try.
func (s *Stay) leave(ctx context.Context) (one try) {
	one.left = append([]string{s.database}, s.roles...)
	one.err = s.server.inConn(ctx, func(conn *sql.Conn) error {
		err := s.drop(ctx, conn)
		one.known = true
		one.left = slices.DeleteFunc(one.left, func(name string) bool {
			none, failed := gone(ctx, conn, name)
			one.known = one.known && failed == nil
			return none
		})
		return err
	})
	return one
}

// drop goes on after a failure: each name that is gone is one less.
func (s *Stay) drop(ctx context.Context, conn *sql.Conn) error {
	database := pq.QuoteIdentifier(s.database)
	_, err := conn.ExecContext(ctx, `DROP DATABASE IF EXISTS `+database)
	// Somebody is in it who is not of this run, an agent that looks at every database for example. It is the run's own all the same.
	if used, ok := errors.AsType[*pq.Error](err); ok && used.Code == "55006" {
		_, err = conn.ExecContext(ctx, `DROP DATABASE IF EXISTS `+database+` WITH (FORCE)`)
	}
	for _, role := range s.roles {
		_, one := conn.ExecContext(ctx, `DROP ROLE IF EXISTS `+pq.QuoteIdentifier(role))
		err = errors.Join(err, one)
	}
	return err
}

// gone tells whether no database and no role has the name any more; false where it
// cannot be known.
func gone(ctx context.Context, conn *sql.Conn, name string) (none bool, err error) {
	err = conn.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT FROM pg_database WHERE datname = $1)
		AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, name).Scan(&none)
	return err == nil && none, err //nolint:wrapcheck // whether there is one is all that anybody asks
}
