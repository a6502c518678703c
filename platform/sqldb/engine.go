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
	parsed, _, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}

	kind, ok := map[string]Engine{
		"postgres": PostgreSQL, "postgresql": PostgreSQL, "mysql": MySQL, "mariadb": MySQL,
	}[parsed.Scheme]
	switch {
	case ok && (len(known) == 0 || slices.Contains(known, kind)):
		return kind, nil
	case len(known) == 1:
		return "", fmt.Errorf("the database URL must begin with %s://", known[0])
	}
	return "", errors.New("the database URL must begin with postgres:// or mysql://")
}

// parseURL returns a database URL and its parameters.
func parseURL(rawURL string) (parsed *url.URL, query url.Values, err error) {
	if err := checkHosts(rawURL); err != nil {
		return nil, nil, err
	}
	parsed, err = url.Parse(rawURL)
	if err != nil {
		// url.Error repeats the whole URL, password included.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, nil, fmt.Errorf("the database URL cannot be read: %w", err)
	}

	if query, err = url.ParseQuery(parsed.RawQuery); err != nil {
		return nil, nil, errors.New("the database URL has a parameter that cannot be decoded")
	}
	if _, both := parsed.User.Password(); both && query.Has(passwordFile) {
		return nil, nil, errors.New("the database URL has both a password and " + passwordFile)
	}
	return parsed, query, nil
}

// engine is what differs between the supported servers. The package's guarantees do
// not depend on it.
type engine interface {
	// connector returns a connector that sends the session settings, but none where the Pooler
	// is not known.
	connector(s Settings) (*connector, error)
	// sessionSettings returns the statement that sets a session's variables before a
	// transaction begins, or "" if the transaction sets them.
	sessionSettings(s Settings, o *options) string
	// beginSQL returns the messages that begin a transaction and make its settings; none: the driver begins it.
	beginSQL(s Settings, o *options) []string
	// warnings returns what Warn looks for, and the query of a capacity.
	warnings() (risks []risk, capacity string)
	// grantedSQL returns the query of CheckRights: whether the role has a privilege, the second parameter, on an object.
	grantedSQL() string
}

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
