package postgres

import (
	"context"
	"embed"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	return migrate.Source{FS: migrations, Schema: "counts"}
}

// Options are the bounds of group commit; see coalesce.Config.
type Options struct {
	MaxOpenConns     int           // of the pool
	InFlight         int           // groups at once; 0 means 1
	Queue            int           // waiting changes at most; 0 means 1024
	LockTimeout      time.Duration // how long a change waits for a locked row
	StatementTimeout time.Duration // the deadline of one group
	Contention       *contention.Metrics
	TracerProvider   trace.TracerProvider
}

// Store is a counting.CountValueRepository on PostgreSQL.
type Store struct {
	db          *sqldb.DB
	adds        *coalesce.Coalescer[string, add, int64]
	singles     *bulkhead.Bulkhead[string] // for the changes that are not grouped
	lock        *contention.Metrics
	lockTimeout time.Duration
}

var _ counting.CountValueRepository = (*Store)(nil)

// New returns a store on db, whose schema must have been migrated.
func New(db *sqldb.DB, o Options, reg prometheus.Registerer) (*Store, error) {
	s := &Store{
		db: db, lock: o.Contention, lockTimeout: o.LockTimeout,
		singles: bulkhead.New[string](o.MaxOpenConns-max(o.InFlight, 1)-ReservedConns, o.Contention),
	}
	adds, err := coalesce.New(coalesce.Config[string, add, int64]{
		Name:        "counts_add",
		Key:         func(a add) string { return a.id },
		Size:        func(a add) int { return len(a.id) + addOverheadBytes },
		Run:         s.applyGroup,
		InFlight:    o.InFlight,
		Queue:       o.Queue,
		LockTimeout: o.LockTimeout,
		Contention:  o.Contention,
		RunTimeout:  o.StatementTimeout + statementGrace,
		Registry:    reg, TracerProvider: o.TracerProvider,
	})
	if err != nil {
		return nil, err
	}
	s.adds = adds
	return s, nil
}

// statementGrace lets the server's own statement_timeout end a statement first: its answer is definite, a deadline of
// the client's is not. Beyond sqldb.Grace a statement also costs no goroutine.
const statementGrace = 2 * sqldb.Grace

// ReservedConns is how many connections of the pool neither the changes that are not grouped nor COALESCE_IN_FLIGHT
// may use: one for the slow lane, one for reads and probes.
const ReservedConns = 2

// Close waits until every change in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error { return s.adds.Close(ctx) }
