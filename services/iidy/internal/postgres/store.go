package postgres

import (
	"context"
	"embed"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	return migrate.Source{FS: migrations, Dir: "migrations", Schema: "iidy"}
}

// Session are the settings that the statements are written for. Each connection
// plans a statement once, whatever its arguments: planning one costs as much as
// running it for a few items. Such a plan outlives the size that the table had, so
// it must not read the table through, which is best while a list is short. The
// planner then takes what it has to read through for so dear that it would compile
// for it, in more time than a batch takes.
func Session() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
}

// Options are the bounds of the store.
type Options struct {
	MaxOpenConns     int           // of the pool
	InFlight         int           // groups of one kind of call at once; 0 means 1
	Queue            int           // waiting calls of one kind at most; 0 means 1024
	LockTimeout      time.Duration // how long a change waits for a locked row
	StatementTimeout time.Duration // the deadline of one group
	BulkTimeout      time.Duration // the same for a long batch, its upload included
	BulkStall        time.Duration // how long the upload of a long batch may pause
	BulkInFlight     int           // long batches at once
	Contention       *contention.Metrics
	TracerProvider   trace.TracerProvider
}

// LaneConns of the pool are for the lanes of group commit: adds, increments and
// deletes each have one, reads another.
const LaneConns = 4

// Store is an attempt.Repository on PostgreSQL.
type Store struct {
	db      *sqldb.DB
	options Options
	changes [attempt.Delete + 1]*lane // by attempt.Change
	gets    *coalesce.Coalescer[key, key, int64]
	batches *bulkhead.Bulkhead[int64] // changes that are a statement of their own
	turn    atomic.Int64              // makes each caller of batches a key of its own
	bulk    chan struct{}             // holds an element for each long batch
	heads   heads
	news    news
	metrics *metrics
}

// lane is the group commit of one kind of change.
type lane = coalesce.Coalescer[key, key, int64]

var _ attempt.Repository = (*Store)(nil)

// New returns a store on db, whose schema must have been migrated.
func New(db *sqldb.DB, o Options, reg prometheus.Registerer) (*Store, error) {
	s := &Store{
		db: db, options: o,
		batches: bulkhead.New[int64](o.MaxOpenConns-LaneConns*max(o.InFlight, 1), nil),
		bulk:    make(chan struct{}, max(o.BulkInFlight, 1)),
	}
	var err error
	if s.metrics, err = newMetrics(reg, func() float64 { return float64(len(s.bulk)) }); err != nil {
		return nil, err
	}
	for change, name := range map[attempt.Change]string{
		attempt.Add: "iidy_add", attempt.Increment: "iidy_increment", attempt.Delete: "iidy_delete",
	} {
		s.changes[change], err = s.newLane(name, func(ctx context.Context, p coalesce.Pass, group []key) ([]coalesce.Answer[int64], error) {
			return s.runChanges(ctx, change, p, group)
		}, reg)
		if err != nil {
			return nil, err
		}
	}
	s.gets, err = s.newLane("iidy_get", s.runGets, reg)
	return s, err
}

func (s *Store) newLane(
	name string, run func(context.Context, coalesce.Pass, []key) ([]coalesce.Answer[int64], error), reg prometheus.Registerer,
) (*lane, error) {
	return coalesce.New(coalesce.Config[key, key, int64]{
		Name: name, Key: func(k key) key { return k }, Size: key.size, Run: run,
		InFlight: s.options.InFlight, Queue: s.options.Queue,
		LockTimeout: s.options.LockTimeout, RunTimeout: s.options.StatementTimeout + statementGrace, Registry: reg,
		Contention:     s.options.Contention,
		TracerProvider: s.options.TracerProvider,
	})
}

// statementGrace lets the server's own statement_timeout speak first: its
// answer is definite, a deadline of ours is not. Beyond sqldb.Grace a statement
// also costs no goroutine.
const statementGrace = 2 * sqldb.Grace

// Close waits until every call under way is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error {
	err := s.gets.Close(ctx)
	for _, l := range s.changes[attempt.Add:] {
		err = errors.Join(err, l.Close(ctx))
	}
	return err
}
