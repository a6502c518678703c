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

	"github.com/rowlock/rowlock/lab/internal/provision"
)

// Prefix is what the names of everything begin with that a run makes.
const Prefix = "rowlock_prove_"

// Stay is a run's time on a server.
type Stay struct {
	server   *Server
	database string   // its name is also what the names of the roles begin with
	roles    []string // that there may be
	notes    []string
}

// Enter makes the run's database: a copy of template0, which holds nothing of others
// and which nobody can be connected to. When it fails there may be something to drop
// all the same: the stay is never nil.
func (s *Server) Enter(ctx context.Context) (*Stay, error) {
	stay := &Stay{server: s, database: Prefix + strings.ToLower(rand.Text()[:10])}
	return stay, s.inConn(ctx, func(conn *sql.Conn) error {
		// Names that are there belong to others, and would be dropped in the end.
		var taken bool
		err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)
			OR EXISTS (SELECT FROM pg_roles WHERE starts_with(rolname, $1))`, stay.database).Scan(&taken)
		if taken {
			stay.database = ""
			err = errors.New("a name by chance is taken: start again")
		}
		if err != nil {
			return fmt.Errorf("look for a name: %w", err)
		}
		if _, err := conn.ExecContext(ctx, `CREATE DATABASE `+pq.QuoteIdentifier(stay.database)+` TEMPLATE template0`); err != nil {
			return fmt.Errorf("make the database %s: %w", stay.database, err)
		}
		return stay.tellDeadlocks(ctx, conn)
	})
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
		s.notes = append(s.notes, fmt.Sprintf("deadlock_timeout is %s, and only a superuser may shorten it: a deadlock of less than that shows "+
			"as a lock timeout and is not counted", there))
	}
	return nil
}

// Notes say what cannot be looked at on this server.
func (s *Stay) Notes() []string {
	notes := slices.Clone(s.notes)
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
func (s *Stay) Service(one provision.Service) provision.Service {
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
	left = append([]string{s.database}, s.roles...)
	for {
		type outcome struct {
			left []string
			err  error
		}
		tried := make(chan outcome, 1)
		go func() {
			left, err := s.leave(ctx)
			tried <- outcome{left, err}
		}()
		// The driver does not hear of ctx's end while the server is silent.
		var one outcome
		select {
		case one = <-tried:
			left = one.left
		case <-ctx.Done():
			return left, s.stays(left, ctx.Err())
		}
		if len(left) == 0 {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return left, s.stays(left, errors.Join(one.err, ctx.Err()))
		case <-time.After(time.Second / 2):
		}
	}
}

// stays is the error that names what is still there.
func (s *Stay) stays(left []string, why error) error {
	return fmt.Errorf("still on the server: %s (%s)", strings.Join(left, ", "), strings.ReplaceAll(s.server.said(why), "\n", "; "))
}

// leave is one try.
func (s *Stay) leave(ctx context.Context) (left []string, err error) {
	left = append([]string{s.database}, s.roles...)
	err = s.server.inConn(ctx, func(conn *sql.Conn) error {
		err := s.drop(ctx, conn)
		left = slices.DeleteFunc(left, func(name string) bool { return gone(ctx, conn, name) })
		return err
	})
	return left, err
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

// gone tells whether no database and no role has the name any more.
func gone(ctx context.Context, conn *sql.Conn, name string) bool {
	var none bool
	err := conn.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT FROM pg_database WHERE datname = $1)
		AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, name).Scan(&none)
	return err == nil && none
}
