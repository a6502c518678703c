package sqldb

import (
	"cmp"
	"strconv"
	"time"

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
	// Several hosts are ?host=a,b&port=5432,5432; the first that takes changes is used.
	// target_session_attrs is read-write where the URL does not say any or primary.
	// Of libpq's parameters those that the driver does not know are ignored, with a
	// warning, or refused where they demand something (channel_binding=require).
	//
	// Or mysql://user:password@host:port/database, with tls=, socket= and password_file=
	// as its parameters.
	//
	// password_file=/path, instead of a password, names a file that is read for each new
	// connection: a changed password counts without a restart, and for sessions that are
	// open within 30 minutes, their longest life.
	URL string
	// Engines lists the engines that the program has SQL for: PostgreSQL alone when
	// empty. A URL of another one is refused.
	Engines []Engine
	// Pooler is PoolerNone when empty.
	Pooler Pooler
	// Cluster is ClusterNone when empty. With ClusterCitus an error proves less: the outcome
	// of a call is Unknown more often.
	Cluster Cluster
	// Name identifies the pool in metrics: "main" when empty.
	Name string
	// MaxOpenConns bounds the pool, idle connections included. 8 when zero.
	MaxOpenConns int
	// LockTimeout is the server's lock_timeout: it counts for each lock anew.
	// 5 s when zero. MySQL knows whole seconds; it is rounded up.
	LockTimeout time.Duration
	// StatementTimeout is the server's statement_timeout. 8 s when zero.
	StatementTimeout time.Duration
	// Session are parameters of the server that the program's statements are
	// written for, such as plan_cache_mode; the URL's own win. Only for PostgreSQL
	// without a pooler: behind one nothing is prepared, and so nothing is kept planned.
	// Citus plans each statement for its shard, and gets no plan_cache_mode.
	Session map[string]string
	// ApplicationName shows in pg_stat_activity.
	ApplicationName string
	// Contention counts the statements that gave up waiting for a lock; nil counts none.
	Contention *contention.Metrics
	// TracerProvider makes a span of each statement; nil makes none, at no cost.
	TracerProvider trace.TracerProvider
}

// PlannedOnce returns a Session for groups: each connection plans a statement once, whatever its arguments and their
// number, because planning costs as much as running it for a few items. The cached plan must survive table
// growth, so it never uses a sequential scan, although that is best for few rows. JIT is off: the planner then expects
// high costs, and compiling would take longer than a group.
func PlannedOnce() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
}

const (
	defaultMaxOpenConns     = 8
	defaultLockTimeout      = 5 * time.Second
	defaultStatementTimeout = 8 * time.Second
	defaultConnectTimeout   = 5 * time.Second

	// idleTxTimeout makes the server end a session that stalls inside a transaction, whose locks others wait for, and
	// whose outcome is unknown until then. Transactions wait for nothing between their statements.
	idleTxTimeout = 2 * time.Second
	// idleTxTimeoutMySQL is longer: no outcome is asked for there.
	idleTxTimeoutMySQL = 10 * time.Second

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
	s.Cluster = cmp.Or(s.Cluster, ClusterNone)
	s.Name = cmp.Or(s.Name, "main")
	s.MaxOpenConns = cmp.Or(s.MaxOpenConns, defaultMaxOpenConns)
	s.LockTimeout = cmp.Or(s.LockTimeout, defaultLockTimeout)
	s.StatementTimeout = cmp.Or(s.StatementTimeout, defaultStatementTimeout)
}

// Milliseconds formats d as PostgreSQL reads a timeout: in whole milliseconds, at
// least 1, because 0 would mean none.
func Milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
