package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Prefix begins the names of everything that a run makes.
const Prefix = "rowlock_prove_"

// Session holds a run's database and roles on a server.
type Session struct {
	server *Server
	name   string
	roles  []string
	notes  []string
}

// Create makes the run's database from template0. It takes no more connections than
// Open was given, and only the run's roles may connect to it. After an error there may
// be something to drop all the same: the session is never nil.
func (s *Server) Create(ctx context.Context) (*Session, error) {
	session := &Session{server: s, name: Prefix + strings.ToLower(rand.Text()[:16])}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // a copy of some 8 MB
	defer cancel()
	err := s.onServer(ctx, func(db *sqldb.DB) error {
		name := pq.QuoteIdentifier(session.name)
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
			session.notes = append(session.notes,
				"only a superuser may shorten deadlock_timeout: a deadlock may show as a lock timeout instead")
			return nil
		}
		return err
	})
	if err != nil {
		return session, fmt.Errorf("make the database %s: %w", session.name, err)
	}
	if !s.facts.Activity {
		session.notes = append(session.notes,
			"track_activities is off: whether connections are idle after the run was not checked")
	}
	return session, nil
}

// Name returns the database's name, with which the roles' names begin.
func (s *Session) Name() string { return s.name }

// Notes say what cannot be checked on this server.
func (s *Session) Notes() []string { return s.notes }

// Admin returns the administrator's URL in the run's database.
func (s *Session) Admin() string {
	u := *s.server.url
	u.Path = "/" + s.name
	return u.String()
}

// Schema returns the schema with roles of this run, which Drop drops.
func (s *Session) Schema(one local.Schema) local.Schema {
	one.Roles = s.name + "_" + one.Name
	s.roles = append(s.roles, one.RoleNames()...)
	return one
}

// Drop drops the database and the roles, and tries again until ctx ends. The error names
// what may still be there.
func (s *Session) Drop(ctx context.Context) error {
	left := append([]string{s.name}, s.roles...)
	for {
		err := s.server.onServer(ctx, func(db *sqldb.DB) (all error) {
			left = slices.DeleteFunc(left, func(name string) bool {
				statement := `DROP ROLE IF EXISTS ` + pq.QuoteIdentifier(name)
				if name == s.name {
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
				s.server.url.Host, strings.Join(left, ", "), reason(err))
		case <-time.After(time.Second / 2):
		}
	}
}
