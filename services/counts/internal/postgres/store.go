package postgres

import (
	"context"
	"embed"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	const all = "SELECT, INSERT, UPDATE, DELETE ON counts."
	return migrate.Source{
		FS: migrations, Schema: "counts", Distribution: distribution(),
		Rights: []string{"USAGE ON SCHEMA counts", all + "count_values", all + "idempotency_keys", all + "slots"},
	}
}

// Store is a counting.CountValueRepository on PostgreSQL.
type Store struct {
	limits groupcommit.Limits
	keyTTL time.Duration

	distributed bool // on a Citus cluster
	texts       texts

	adds    *groupcommit.Committer[string, plainAdd, addAnswer]
	changes *groupcommit.Committer[string, request, counting.Answer]

	requests atomic.Uint64 // of several counts, each of which has a lane to itself
	patient  *groupcommit.Patient
}

var _ counting.CountValueRepository = (*Store)(nil)

// ReservedConns is the number of connections that COALESCE_IN_FLIGHT must leave in the pool: one for lanes, one for
// reads and probes.
const ReservedConns = 2

// New returns a store on the database of limits, whose schema must be migrated. Keys are kept for keyTTL.
func New(limits groupcommit.Limits, keyTTL time.Duration) *Store {
	s := &Store{
		limits: limits, keyTTL: keyTTL, patient: groupcommit.NewPatient(limits, 2, aloneWait),
		distributed: limits.DB.Cluster() == sqldb.ClusterCitus,
	}
	s.texts = textsOf(s.distributed)
	s.adds = groupcommit.New(groupcommit.Config[string, plainAdd, addAnswer]{
		Limits: limits, Name: "counts_add", Key: plainAdd.lane, Place: plainAdd.lane, Size: plainAdd.size,
		Send: s.sendAdds,
	})
	s.changes = groupcommit.New(groupcommit.Config[string, request, counting.Answer]{
		Limits: limits, Name: "counts_change", Key: request.laneKey, Place: request.place, Size: request.size,
		Send: s.sendChanges, Transaction: true, Patient: s.patient,
	})
	return s
}

// Close waits until every change in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.adds.Close(ctx), s.changes.Close(ctx))
}
