package sqldb

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Engine is the kind of server behind a database URL.
type Engine string

// The engines. MySQL means MariaDB too; comments name the differences.
const (
	PostgreSQL Engine = "postgres"
	MySQL      Engine = "mysql"
)

// EngineOf returns the engine of a database URL, by its scheme, and an error when it is
// not one of known; any is, when none is given. The error does not repeat the URL, which
// may hold a password.
func EngineOf(rawURL string, known ...Engine) (Engine, error) {
	parsed, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}
	var kind Engine
	switch parsed.Scheme {
	case "postgres", "postgresql":
		kind = PostgreSQL
	case "mysql", "mariadb":
		kind = MySQL
	}
	switch {
	case slices.Contains(known, kind), len(known) == 0 && kind != "":
		return kind, nil
	case len(known) == 1:
		return "", fmt.Errorf("the database URL must begin with %s://", known[0])
	}
	return "", errors.New("the database URL must begin with postgres:// or mysql://")
}

func parseURL(rawURL string) (*url.URL, error) {
	if err := checkHosts(rawURL); err != nil {
		return nil, err
	}
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

// engine is what differs between the supported servers. The package's guarantees do
// not depend on it.
type engine interface {
	// connector returns the connector of a pool.
	connector(s Settings) (*connector, error)
	// plainConnector returns a connector that sends no session settings.
	plainConnector(rawURL string) (*connector, error)
	// database returns the name of the database that a URL leads to, or "".
	database(rawURL string) string
	// sessionSettings returns the statement that sets a session's variables before a
	// transaction begins, or "" where a transaction can have settings of its own.
	sessionSettings(s Settings, o *options) string
	// localSettings returns the first statement inside a transaction, or "".
	localSettings(s Settings, o *options) string
	// risks returns what Warn looks for.
	risks() []risk
	// capacity returns the query of a capacity.
	capacity() string
}

//nolint:ireturn // the seam between the engines
func (e Engine) implementation() engine {
	if e == MySQL {
		return mysqlEngine{}
	}
	return postgresEngine{}
}

// timeouts returns the transaction's own timeouts, or the session's where it has none.
func (o *options) timeouts(s Settings) (lock, statement time.Duration) {
	return cmp.Or(o.lockTimeout, s.LockTimeout), cmp.Or(o.statementTimeout, s.StatementTimeout)
}
