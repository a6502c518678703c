package sqldb

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/contention"
)

// Pooler names what stands between the program and the database.
type Pooler string

// The known poolers.
const (
	// PoolerNone is a direct connection: a session belongs to one client.
	PoolerNone Pooler = "none"
	// PoolerTransaction is a pooler in transaction mode (PgBouncer): nothing
	// may rely on the session, and nothing is prepared by name.
	PoolerTransaction Pooler = "transaction"
)

// Settings configure [Open]. Zero durations and numbers mean the defaults named here;
// package config checks what an operator sets.
type Settings struct {
	// URL is postgres://user:password@host:port/database?sslmode=... The
	// sslmode must be written out, and behind a pooler binary_parameters=yes too.
	// Or mysql://user:password@host:port/database, with tls= and socket= as its
	// parameters.
	URL string
	// Engines lists the engines that the program has SQL for: PostgreSQL alone when
	// empty. A URL of another one is refused.
	Engines []Engine
	// Pooler is PoolerNone when empty.
	Pooler Pooler
	// Name identifies the pool in metrics: "main" when empty.
	Name string
	// MaxOpenConns bounds the pool, idle connections included. 8 when zero.
	MaxOpenConns int
	// LockTimeout is the server's lock_timeout: it counts for each lock anew.
	// 5 s when zero. MySQL knows whole seconds; it is rounded up.
	LockTimeout time.Duration
	// StatementTimeout is the server's statement_timeout. 8 s when zero.
	StatementTimeout time.Duration
	// IdleTxTimeout is idle_in_transaction_session_timeout: the server ends a
	// session that stalls inside a transaction. 10 s when zero.
	IdleTxTimeout time.Duration
	// Session are parameters of the server that the program's statements are
	// written for, such as plan_cache_mode; the URL's own win. Only for PostgreSQL
	// without a pooler: behind one nothing is prepared, and so nothing is kept planned.
	Session map[string]string
	// ApplicationName shows in pg_stat_activity.
	ApplicationName string
	// Contention counts the statements that gave up waiting for a lock; nil counts none.
	Contention *contention.Metrics
	// TracerProvider makes a span of each statement; nil makes none, at no cost.
	TracerProvider trace.TracerProvider
}

const (
	defaultMaxOpenConns     = 8
	defaultLockTimeout      = 5 * time.Second
	defaultStatementTimeout = 8 * time.Second
	defaultIdleTxTimeout    = 10 * time.Second
	defaultConnectTimeout   = 5 * time.Second

	// Grace is how much longer than the server's own deadline the client waits for
	// its answer: enough for an error to arrive, so that the server decides the
	// outcome.
	Grace = time.Second

	// clientCheckInterval makes the server detect that its client is gone while a
	// statement waits, and cancel it. Without it the UPDATE of a dead client is
	// applied when the lock comes free. PostgreSQL 14 and later.
	clientCheckInterval = 200 * time.Millisecond
)

func (s *Settings) setDefaults() {
	if len(s.Engines) == 0 {
		s.Engines = []Engine{PostgreSQL}
	}
	s.Pooler = cmp.Or(s.Pooler, PoolerNone)
	s.Name = cmp.Or(s.Name, "main")
	s.MaxOpenConns = cmp.Or(s.MaxOpenConns, defaultMaxOpenConns)
	s.LockTimeout = cmp.Or(s.LockTimeout, defaultLockTimeout)
	s.StatementTimeout = cmp.Or(s.StatementTimeout, defaultStatementTimeout)
	s.IdleTxTimeout = cmp.Or(s.IdleTxTimeout, defaultIdleTxTimeout)
}

// driverConfig checks a URL and returns the driver's configuration of it, without
// session settings, together with the URL's parameters.
func driverConfig(rawURL string) (pq.Config, url.Values, error) {
	parsed, err := parseURL(rawURL)
	if err != nil {
		return pq.Config{}, nil, err
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return pq.Config{}, nil, errors.New("the database URL has a parameter that cannot be decoded")
	}
	cfg, err := pq.NewConfig(rawURL)
	if err != nil {
		return pq.Config{}, nil, fmt.Errorf("the database URL cannot be used: %w", err)
	}
	onSocket := strings.HasPrefix(cfg.Host, "/") || strings.HasPrefix(cfg.Host, "@") // there is no TLS
	if !query.Has("sslmode") && !onSocket {
		return pq.Config{}, nil, errors.New("the database URL must say sslmode=disable, require, verify-ca or verify-full: " +
			"the driver's default changes between versions")
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = defaultConnectTimeout
	}
	return cfg, query, nil
}

// sessionConfig returns the driver's configuration of a pool.
func sessionConfig(s Settings) (pq.Config, error) {
	cfg, query, err := driverConfig(s.URL)
	if err != nil {
		return pq.Config{}, err
	}
	if s.ApplicationName != "" && !query.Has("application_name") {
		cfg.ApplicationName = s.ApplicationName
	}
	if s.Pooler == PoolerTransaction {
		return pooled(cfg)
	}
	if !query.Has("binary_parameters") {
		// One round trip a statement instead of two.
		cfg.BinaryParameters = true
	}
	cfg.Runtime, err = startupParameters(s, cfg.Runtime)
	return cfg, err
}

// checkPooled returns an error for settings that fail, some of them silently, behind
// a pooler in transaction mode.
func checkPooled(cfg pq.Config) error {
	if !cfg.BinaryParameters {
		return errors.New("behind a transaction pooler the database URL must say binary_parameters=yes: " +
			"without it one client can receive the rows of another")
	}
	names := slices.Sorted(maps.Keys(cfg.Runtime))
	if cfg.Options != "" {
		names = append(names, "options")
	}
	if len(names) > 0 {
		return fmt.Errorf(
			"behind a transaction pooler the database URL cannot set %s: use ALTER ROLE ... SET on the server",
			strings.Join(names, ", "))
	}
	return nil
}

// startupParameters returns the settings that are sent once per connection, in its
// first message. given are those of the URL.
func startupParameters(s Settings, given map[string]string) (map[string]string, error) {
	params := map[string]string{
		"lock_timeout":                        Milliseconds(s.LockTimeout),
		"statement_timeout":                   Milliseconds(s.StatementTimeout),
		"idle_in_transaction_session_timeout": Milliseconds(s.IdleTxTimeout),
		"client_connection_check_interval":    Milliseconds(clientCheckInterval),
		"default_transaction_isolation":       "read committed", // for single statements: a transaction sets its own
	}
	maps.Copy(params, s.Session)
	for name, value := range given {
		if name == "lock_timeout" || name == "statement_timeout" {
			return nil, fmt.Errorf("the database URL sets %s, which has a setting of its own: the two would disagree",
				name)
		}
		params[name] = value
	}
	return params, nil
}

// Milliseconds formats d as PostgreSQL reads a timeout: in whole milliseconds, at
// least 1, because 0 would mean none.
func Milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
