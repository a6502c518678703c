package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// maxChanges is how many leases a pot on Citus remembers, of its last changes.
const maxChanges = 16

// onCitus reports whether the pots are distributed over a Citus cluster. A group is one pot there.
func (s *Store) onCitus() bool { return s.db.Cluster() == sqldb.ClusterCitus }

// acquireOnShard returns the statement of acquire for a pot, and its arguments; those of acquireFreeSQL begin them.
func acquireOnShard(pass coalesce.Pass, id int32, args []any) (statement string, all []any) {
	statement = acquireOnShardWaiting
	if pass.SkipLocked {
		statement = acquireOnShardFree
	}
	return statement, slices.Concat([]any{id}, args[1:], []any{sqldb.Milliseconds(pass.Wait)})
}

// sendToShard is send for a pot. No other change adds to its changes while its lease holds, so they are those of the
// acquisition.
func (s *Store) sendToShard(
	ctx context.Context, pass coalesce.Pass, leased []*queue,
) (written pq.Int32Array, err error) {
	statement := writeOnShardWaiting
	if pass.SkipLocked {
		statement = writeOnShardFree
	}
	q := leased[0]
	all := q.after.List()
	kinds, counts := make(pq.Int32Array, len(all)), make(pq.Int64Array, len(all)) // never nil, which would be NULL
	for i, coins := range all {
		kinds[i], counts[i] = int32(coins.Kind), coins.Count
	}
	err = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.QueryRowContext(ctx, statement, int32(q.id), q.lease.number, q.after.Total(),
			kinds, counts, sqldb.Milliseconds(pass.Wait), q.lease.with()).Scan(&written)
	})
	return written, err
}

// with returns the leases of the pot's last changes, this one's among them.
func (l *lease) with() pq.StringArray {
	all := slices.Concat(pq.StringArray{l.number.String()}, l.changes)
	return all[:min(len(all), maxChanges)]
}

// resolveOnShards is resolve where the pots are on workers, of whose histories the coordinator knows nothing. So what
// proves a change is in the row that it changes: the lease that it was made under. It was made when the pot remembers
// its lease. It was not, and never will be, when the pot still has the lease, which gets another number, or when it
// remembers all changes since the acquisition and this one is not among them. Where that cannot be seen, the outcome
// stays unknown. A standby that was promoted in between answers for the data that it has.
func (s *Store) resolveOnShards(ctx context.Context, leased []*queue, lost error) []error {
	results := make([]error, len(leased))
	for i, q := range leased {
		results[i] = s.resolveOnShard(ctx, q, lost)
	}
	return results
}

func (s *Store) resolveOnShard(ctx context.Context, q *queue, lost error) error {
	held, number := q.lease, uuid.New()
	q.lease = nil
	var ours bool
	var changes pq.StringArray
	for {
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.QueryRowContext(ctx, resolveOnShardSQL, int32(q.id), held.number, number,
				sqldb.Milliseconds(s.options.Limits.LockTimeout)).Scan(&ours, &changes)
		})
		if err == nil {
			break
		}
		if errors.Is(err, sql.ErrNoRows) || !s.sleep(ctx) { // a pot that is gone proves nothing
			return lost
		}
	}
	switch {
	case slices.Contains(changes, held.number.String()):
		return nil
	case ours:
		s.releaseAll(ctx, pq.Int32Array{int32(q.id)}, pq.StringArray{number.String()})
		return notApplied(lost)
	case held.precedes(changes):
		return notApplied(lost)
	}
	return lost
}

// precedes reports whether changes, which a pot remembers, are all that it has had since the acquisition.
func (l *lease) precedes(changes []string) bool {
	if len(l.changes) == 0 {
		return len(changes) < maxChanges
	}
	return slices.Contains(changes, l.changes[0])
}

// releaseOnShards is releaseAll. It waits for a pot's row within ctx.
func (s *Store) releaseOnShards(ctx context.Context, ids pq.Int32Array, numbers pq.StringArray) {
	wait := sqldb.Milliseconds(releaseWithin / 2)
	for i, id := range ids {
		_ = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			_, err := conn.ExecContext(ctx, releaseOnShardSQL, id, numbers[i], wait)
			return err
		})
	}
}

// findNamed is FindByName. A name whose pot is not created yet has none.
func (s *Store) findNamed(ctx context.Context, name string) (pot.Pot, error) {
	id, err := s.numberOf(ctx, name)
	if err != nil {
		return pot.Pot{}, err
	}
	p, err := s.find(ctx, findOnShardSQL, id)
	if err == nil && p.Name != name {
		return pot.Pot{}, pot.ErrNotFound
	}
	return p, err
}

// numberOf returns the number of a name, or pot.ErrNotFound.
func (s *Store) numberOf(ctx context.Context, name string) (id int32, err error) {
	err = s.db.GetContext(ctx, &id, findNameSQL, name)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, pot.ErrNotFound
	}
	return id, err
}

// listShards is List. The total and the pots of each shard are as of moments of their own.
func (s *Store) listShards(ctx context.Context, limit, offset int64) ([]pot.Pot, int64, error) {
	var total int64
	if err := s.db.GetContext(ctx, &total, countPotsSQL); err != nil {
		return nil, 0, err
	}
	if limit == 0 || offset >= total {
		return nil, total, nil
	}
	var rows []row
	if err := s.db.SelectContext(ctx, &rows, listShardsSQL, limit, offset); err != nil {
		return nil, 0, err
	}
	list := make([]pot.Pot, 0, len(rows))
	for _, r := range rows {
		list = append(list, r.domain())
	}
	return list, total, nil
}
