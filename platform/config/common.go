package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Common holds the variables that all services share. A service embeds it in its configuration.
type Common struct {
	// DatabaseURL is the service's database. sqldb checks its scheme and parameters.
	DatabaseURL string `env:"DATABASE_URL,required" secret:"url"`
	// DBPooler is the pooler in front of the database.
	DBPooler string `env:"DB_POOLER" envDefault:"none" oneof:"none|transaction"`
	// DBCluster is the extension that distributes the database's tables.
	DBCluster string `env:"DB_CLUSTER" envDefault:"none" oneof:"none|citus"`
	// DBMaxOpenConns bounds the connections of one replica.
	DBMaxOpenConns int `env:"DB_MAX_OPEN_CONNS" envDefault:"8" min:"1"`
	// DBLockTimeout is PostgreSQL's lock_timeout: it applies to each wait.
	DBLockTimeout time.Duration `env:"DB_LOCK_TIMEOUT" envDefault:"5s" min:"1ms"`
	// DBStatementTimeout is PostgreSQL's statement_timeout, which bounds several lock waits together.
	DBStatementTimeout time.Duration `env:"DB_STATEMENT_TIMEOUT" envDefault:"8s" min:"1ms"`
	// RequestTimeout is the deadline of a request's context.
	RequestTimeout time.Duration `env:"REQUEST_TIMEOUT" envDefault:"10s" min:"1ms"`
	// IdleTimeout closes a client's connection without requests.
	IdleTimeout time.Duration `env:"IDLE_TIMEOUT" envDefault:"10m" min:"1s" max:"24h"`
	// MaxConnectionAge closes a client's connection by the next answer.
	MaxConnectionAge time.Duration `env:"MAX_CONNECTION_AGE" envDefault:"30m" min:"1s"`
	// ShutdownTimeout is the time for draining, after the ShutdownDelay. See StopTimeout.
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"20s" min:"1ms"`
	// ShutdownDelay is the time for which a replica that is no longer ready still accepts requests.
	ShutdownDelay time.Duration `env:"SHUTDOWN_DELAY" envDefault:"0s" min:"0s" max:"10m"`

	// MigrateOnStart applies pending migrations before serving.
	MigrateOnStart bool `env:"MIGRATE_ON_START" envDefault:"true"`
	// MigrateDatabaseURL is for migrations; read it with MigrationURL.
	MigrateDatabaseURL string `env:"MIGRATE_DATABASE_URL" secret:"url"`

	// MigrateTimeout bounds the wait for the migration lock.
	MigrateTimeout time.Duration `env:"MIGRATE_TIMEOUT" envDefault:"5m" min:"1ms" max:"24h"`

	// HTTPAddr is the address of the API.
	HTTPAddr string `env:"HTTP_ADDR" envDefault:":8080"`
	// AdminAddr is the address of the probes and metrics.
	AdminAddr string `env:"ADMIN_ADDR" envDefault:":9090"`
	// PProf adds /debug/pprof to AdminAddr.
	PProf bool `env:"PPROF" envDefault:"false"`
	// MaxBody bounds the body of a request.
	MaxBody Bytes `env:"MAX_BODY" envDefault:"64KiB" min:"1B"`
	// MaxInFlight bounds the concurrent requests of one replica.
	MaxInFlight int `env:"MAX_IN_FLIGHT" envDefault:"1024" min:"1"`

	// Auth configures who may call.
	Auth Auth

	// LogLevel is the lowest level that is logged.
	LogLevel string `env:"LOG_LEVEL" envDefault:"info" oneof:"debug|info|warn|error"`
	// LogFormat is the format of a log line.
	LogFormat string `env:"LOG_FORMAT" envDefault:"json" oneof:"json|text"`
	// LogRequests selects the requests that are logged.
	LogRequests string `env:"LOG_REQUESTS" envDefault:"errors" oneof:"all|errors|none"`
}

// Help describes the variables.
func (Common) Help() map[string]string {
	return map[string]string{
		"DATABASE_URL": "the database, postgres://user:password@host:5432/name?sslmode=...; or password_file=/path, " +
			"read for each connection; several hosts as ?host=a,b&port=5432,5432",
		"DB_POOLER": "none, or transaction behind PgBouncer in transaction mode: needs binary_parameters=yes in " +
			"DATABASE_URL",
		"DB_CLUSTER": "none, or citus if DATABASE_URL is a Citus coordinator (counts and iidy only); " +
			"see docs/scaling.md",
		"DB_MAX_OPEN_CONNS":    "maximum number of connections of one replica",
		"DB_LOCK_TIMEOUT":      "how long a change waits for locked rows, and any other statement for one lock",
		"DB_STATEMENT_TIMEOUT": "how long one statement may take; more than DB_LOCK_TIMEOUT",
		"REQUEST_TIMEOUT":      "how long one request may take; more than DB_STATEMENT_TIMEOUT",
		"IDLE_TIMEOUT":         "close a client's connection without requests after this; more than a balancer keeps its own",
		"MAX_CONNECTION_AGE":   "close a client's connection after this, with an answer, so that clients find new replicas",
		"SHUTDOWN_TIMEOUT":     "how long finishing, flushing and closing may take after SIGTERM; more than REQUEST_TIMEOUT",
		"SHUTDOWN_DELAY": "how long to go on serving after SIGTERM, while load balancers notice; comes before " +
			"SHUTDOWN_TIMEOUT",

		"MIGRATE_TIMEOUT":      "how long to wait for another process's migration; more than the longest one takes",
		"MIGRATE_ON_START":     "apply pending migrations at start, under a lock; false: wait until another process has",
		"MIGRATE_DATABASE_URL": "a direct connection with DDL rights for migrations; empty: DATABASE_URL",

		"HTTP_ADDR":     "address of the API; port 0 takes a free one",
		"ADMIN_ADDR":    "address of /livez, /readyz and /metrics; port 0 takes a free one",
		"PPROF":         "serve /debug/pprof on ADMIN_ADDR",
		"MAX_BODY":      "a longer body is answered 413",
		"MAX_IN_FLIGHT": "concurrent requests; others wait up to 250ms, then get 503 OVERLOADED",

		"LOG_LEVEL":    "debug, info, warn or error",
		"LOG_FORMAT":   "json or text",
		"LOG_REQUESTS": "all, errors (4xx, 5xx, slower than 1s; ten a second of each code but 500) or none",
	}
}

// Base returns the Common part of a configuration that embeds it.
func (c Common) Base() Common { return c }

// MigrationURL returns the database URL for migrations: MIGRATE_DATABASE_URL, or DATABASE_URL if that is empty.
func (c Common) MigrationURL() string {
	if c.MigrateDatabaseURL != "" {
		return c.MigrateDatabaseURL
	}
	return c.DatabaseURL
}

// StopTimeout returns how long an orderly stop may take, delay included, for lifecycle.Run. Whatever kills the process
// must wait longer (terminationGracePeriodSeconds).
func (c Common) StopTimeout() time.Duration { return c.ShutdownDelay + c.ShutdownTimeout }

// Validate checks what tags cannot express: that each timeout fits into the next, and that addresses and URLs parse.
func (c Common) Validate(f *Faults) {
	f.URL("DATABASE_URL", c.DatabaseURL)
	f.URL("MIGRATE_DATABASE_URL", c.MigrateDatabaseURL)
	f.Address("HTTP_ADDR", c.HTTPAddr)
	f.Address("ADMIN_ADDR", c.AdminAddr)

	if c.HTTPAddr == c.AdminAddr && !strings.HasSuffix(c.HTTPAddr, ":0") {
		f.Add("HTTP_ADDR and ADMIN_ADDR are both "+c.HTTPAddr, "HTTP_ADDR", "ADMIN_ADDR")
	}

	// Each must be able to expire inside the next: only then does the answer name the cause, such as a lock.
	f.Less("DB_LOCK_TIMEOUT", c.DBLockTimeout, "DB_STATEMENT_TIMEOUT", c.DBStatementTimeout)
	f.Less("DB_STATEMENT_TIMEOUT", c.DBStatementTimeout, "REQUEST_TIMEOUT", c.RequestTimeout)
	f.Less("REQUEST_TIMEOUT", c.RequestTimeout, "SHUTDOWN_TIMEOUT", c.ShutdownTimeout)
}

// Less records a fault unless a is shorter than b.
func (f *Faults) Less(nameA string, a time.Duration, nameB string, b time.Duration) {
	if a >= b {
		f.Add(fmt.Sprintf("%s (%s) must be shorter than %s (%s)", nameA, a, nameB, b), nameA, nameB)
	}
}

// Address records a fault unless value is host:port, :port, or either with port 0.
func (f *Faults) Address(name, value string) {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		f.Add(fmt.Sprintf("%s: %q is not an address such as :8080 or 127.0.0.1:0", name, value), name)
	}
}

// URL records a fault unless value is empty or a URL with a scheme. The fault does not repeat the value, which may
// hold a password.
func (f *Faults) URL(name, value string) {
	if value == "" {
		return
	}

	if strings.ContainsAny(value, "\r\n") {
		f.Add(name+": holds a line break: look for one at the end of the secret that it is made from", name)
		return
	}

	u, err := url.Parse(value)
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		f.Add(name+": not a URL such as postgres://user:password@host:5432/name; "+
			"special characters in the password must be percent-encoded", name)
	}
}
