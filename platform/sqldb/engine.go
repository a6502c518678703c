package sqldb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Engine is the kind of server behind a database URL.
type Engine string

// The engines. MySQL stands for MariaDB too: where the two differ, it says so.
const (
	PostgreSQL Engine = "postgres"
	MySQL      Engine = "mysql"
)

// EngineOf tells the engine from a database URL's scheme. Its error does not
// repeat the URL, which may hold a password.
func EngineOf(rawURL string) (Engine, error) {
	parsed, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}
	switch parsed.Scheme {
	case "postgres", "postgresql":
		return PostgreSQL, nil
	case "mysql", "mariadb":
		return MySQL, nil
	}
	return "", errScheme
}

// engine is that of the URL, if it is one of those that are asked for.
func (s *Settings) engine() (Engine, error) {
	kind, err := EngineOf(s.URL)
	known := s.Engines
	if len(known) == 0 {
		known = []Engine{PostgreSQL}
	}
	if err == nil && slices.Contains(known, kind) || err != nil && !errors.Is(err, errScheme) {
		return kind, err
	}
	return "", WrongEngine(known...)
}

// errScheme is the scheme of no engine at all.
var errScheme = errors.New("the database URL must begin with postgres:// or mysql://")

// WrongEngine is the refusal of a URL that is of none of the engines.
func WrongEngine(known ...Engine) error {
	if len(known) > 1 {
		return errScheme
	}
	return fmt.Errorf("the database URL must begin with %s://", known[0])
}

func parseURL(rawURL string) (*url.URL, error) {
	parsed, err := url.Parse(rawURL)
	if err != nil {
		// url.Error repeats the whole URL, password included.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("the database URL cannot be read: %w", err)
	}
	return parsed, nil
}

// engine is what differs between the servers that the package talks to; all of
// its guarantees stand above it.
type engine interface {
	// connector makes guarded connections for a pool.
	connector(s Settings) (*connector, error)
	// plainConnector makes guarded connections without the settings of a session.
	plainConnector(rawURL string) (*connector, error)
	// sessionSettings is what a connection is told before a transaction begins,
	// and keeps: "" where a transaction can be told by itself.
	sessionSettings(s Settings, o *txOptions) string
	// localSettings is the first statement inside a transaction, or "".
	localSettings(s Settings, o *txOptions) string
	// resolves tells whether a lost COMMIT can be looked up by a transaction's id.
	resolves() bool
	// warnings lists what weakens the service's promises.
	warnings(ctx context.Context, db *DB) ([]string, error)
}

//nolint:ireturn // the seam between the engines
func (e Engine) implementation() engine {
	if e == MySQL {
		return mysqlEngine{}
	}
	return postgresEngine{}
}

// timeouts are those of a transaction: its own, or the session's.
func (o *txOptions) timeouts(s Settings) (lock, statement, idle time.Duration) {
	lock, statement, idle = o.lockTimeout, o.statementTimeout, o.idleTimeout
	if lock == 0 {
		lock = s.LockTimeout
	}
	if statement == 0 {
		statement = s.StatementTimeout
	}
	if idle == 0 {
		idle = s.IdleTxTimeout
	}
	return lock, statement, idle
}

// postgresEngine is PostgreSQL by lib/pq.
type postgresEngine struct{}

func (postgresEngine) connector(s Settings) (*connector, error) {
	cfg, err := sessionConfig(s)
	if err != nil {
		return nil, err
	}
	guarded, err := newConnector(cfg, s.StatementTimeout+Grace)
	if err != nil {
		return nil, err
	}
	guarded.prepare = s.Pooler == PoolerNone
	return guarded, nil
}

func (postgresEngine) plainConnector(rawURL string) (*connector, error) {
	cfg, _, err := driverConfig(rawURL)
	if err != nil {
		return nil, err
	}
	// Right behind a pooler, harmless without one.
	cfg.BinaryParameters = true
	return newConnector(cfg, 0)
}

func (postgresEngine) sessionSettings(Settings, *txOptions) string { return "" }

// localSettings is the SET LOCAL of a transaction: what its options ask for and,
// behind a pooler, what the session could not be told.
func (postgresEngine) localSettings(s Settings, o *txOptions) string {
	lock, statement, idle := o.lockTimeout, o.statementTimeout, o.idleTimeout
	if s.Pooler == PoolerTransaction {
		lock, statement, idle = o.timeouts(s)
	}
	return setLocal("lock_timeout", lock) + setLocal("statement_timeout", statement) +
		setLocal("idle_in_transaction_session_timeout", idle)
}

func setLocal(name string, d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return "SET LOCAL " + name + " = " + Milliseconds(d) + ";"
}

func (postgresEngine) resolves() bool { return true }
