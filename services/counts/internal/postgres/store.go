package postgres

import (
	"context"
	"embed"
	"time"

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
	return migrate.Source{FS: migrations, Schema: "counts", Distribution: distribution()}
}

// Session returns the session settings that the statements are written for: each is planned once for groups of any
// size, and never reads a whole table, which its plan may outlive the smallness of.
func Session() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
}

// Store is a counting.CountValueRepository on PostgreSQL.
type Store struct {
	db          *sqldb.DB
	adds        *coalesce.Coalescer[string, request, reply]
	ungrouped   *bulkhead.Bulkhead[string] // for Create, Set and Delete
	lock        *contention.Metrics
	lockTimeout time.Duration
	journalTTL  time.Duration
	keyTTL      time.Duration

	ofNoCaller, ofCallers keyedSQL

	// Of distributed counts; nil otherwise.
	shards  *sqldb.Shards
	sharded *coalesce.Sharded[string, request, reply]
	slots   slots
	onShard passSQL
}

var _ counting.CountValueRepository = (*Store)(nil)

// Options are the settings of a store.
type Options struct {
	Limits       coalesce.Limits
	MaxOpenConns int           // of the pool
	KeyTTL       time.Duration // how long a request with a key can be repeated
	JournalTTL   time.Duration // how long a statement whose answer got lost can be looked up; twice the time it is tried
}

// New returns a store on db, whose schema must have been migrated.
func New(db *sqldb.DB, o Options) (*Store, error) {
	limits := o.Limits
	s := &Store{
		db: db, lock: limits.Contention, lockTimeout: limits.LockTimeout, journalTTL: o.JournalTTL, keyTTL: o.KeyTTL,
		ofNoCaller: newKeyedSQL(ofNoCaller()), ofCallers: newKeyedSQL(ofCallers()),
	}
	cfg := coalesce.Config[string, request, reply]{
		Name:   "counts_add",
		Key:    func(r request) string { return r.id },
		Size:   request.size,
		Weight: request.weight,

		MaxItems: maxWeight, MaxBytes: maxBytes, QueueItems: queuedSteps,
		Limits: limits,
	}
	groups := max(limits.InFlight, 1)
	var err error
	if db.Cluster() == sqldb.ClusterCitus {
		groups = max((o.MaxOpenConns-ReservedConns)*2/3, 1)
		cfg.Run, cfg.InFlight = s.applyShardGroup, 1
		s.onShard = updateOnShard()
		s.shards = sqldb.NewShards(db, "counts.count_values", shardsKnown)
		s.sharded, err = coalesce.NewSharded(cfg, groups)
	} else {
		cfg.Run, cfg.Others, cfg.Await = s.applyGroup, request.others, s.await
		s.adds, err = coalesce.New(cfg)
	}
	s.ungrouped = bulkhead.New[string](o.MaxOpenConns-groups-ReservedConns, limits.Contention, limits.Share)
	return s, err
}

// queuedSteps bounds the changes of batches that wait: their memory, and more than about a second's work, behind which
// a batch would wait until its time runs out.
const queuedSteps = 32_000

// ReservedConns is how many connections of the pool are left when COALESCE_IN_FLIGHT groups run and as many ungrouped
// changes as may: one for the slow lane, one for reads and probes.
const ReservedConns = 2

// Close waits until every change in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error {
	if s.onCitus() {
		return s.sharded.Close(ctx)
	}
	return s.adds.Close(ctx)
}
