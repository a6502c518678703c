package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// answer says what became of a pot's callers: nil when their changes are stored, each as its own refusal allows.
type answer = coalesce.Answer[struct{}]

// runGroup leases and changes pots, of which it skips those that are held.
func (s *Store) runGroup(ctx context.Context, pass coalesce.Pass, group []*queue) ([]answer, error) {
	return s.run(ctx, coalesce.Pass{SkipLocked: true, Wait: pass.Wait}, pass, group)
}

// runContended leases and changes a pot, and waits for the transaction that has its row locked.
func (s *Store) runContended(ctx context.Context, pass coalesce.Pass, group []*queue) ([]answer, error) {
	return s.run(ctx, pass, pass, group)
}

// run leases pots, reads them, computes the changes of their callers, and writes them. It returns coalesce.ErrLockWait
// or coalesce.ErrSplit as it is to be called again; the pots keep their leases then. The error of a pot is in its
// answer.
func (s *Store) run(ctx context.Context, acquire, write coalesce.Pass, group []*queue) ([]answer, error) {
	answers := make([]answer, len(group))
	err := s.acquire(ctx, acquire, group, answers)
	if errors.Is(err, coalesce.ErrLockWait) {
		return nil, err
	}
	var leased []*queue
	var at []int // of leased, in group
	for i, q := range group {
		if q.lease != nil {
			leased, at = append(leased, q), append(at, i)
		}
	}
	if len(leased) == 0 {
		return answers, nil
	}
	results, err := s.change(ctx, write, leased)
	if again := errors.Is(err, coalesce.ErrLockWait) || errors.Is(err, coalesce.ErrSplit) && len(group) > 1; again {
		return nil, err
	}
	if unknown(err) {
		results, err = s.resolve(ctx, leased, err), nil
	}
	if err != nil {
		s.release(ctx, leased...)
	}
	for i, n := range at {
		if err != nil {
			answers[n].Err = err
		} else {
			answers[n].Err = results[i]
		}
	}
	return answers, nil
}

// readSQL reads the coins of leased pots, which only the holder of the lease changes: the fence of the write that
// follows makes sure that it still is.
const readSQL = `
SELECT coalesce(array_agg(pot_id), '{}') AS pots, coalesce(array_agg(denomination), '{}') AS denominations,
       coalesce(array_agg(coin_count), '{}') AS counts
  FROM pyggpot.coin
 WHERE pot_id = ANY($1::integer[]) AND coin_count > 0`

// change reads the leased pots, computes the changes of their callers, and writes them. It returns what became of each
// pot, or the error of all.
func (s *Store) change(ctx context.Context, pass coalesce.Pass, leased []*queue) ([]error, error) {
	contents := make(map[int32]pot.Contents, len(leased))
	ids, numbers := identify(leased)
	for i, q := range leased {
		q.before.Contents = make(pot.Contents)
		contents[ids[i]] = q.before.Contents
	}
	var pots, kinds pq.Int32Array
	var counts pq.Int64Array
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.QueryRowContext(ctx, readSQL, ids).Scan(&pots, &kinds, &counts)
	})
	if err != nil {
		return nil, notApplied(err)
	}
	for i, id := range pots {
		contents[id][pot.Kind(kinds[i])] = counts[i]
	}
	for _, q := range leased {
		q.after = applyAll(q.before, s.take(ctx, q))
	}
	return s.write(ctx, pass, leased, ids, numbers)
}

// merge returns the contents before with those of after, kind by kind.
func merge(before, after pot.Contents) pot.Contents {
	merged := make(pot.Contents, len(before)+len(after))
	maps.Copy(merged, before)
	maps.Copy(merged, after)
	return merged
}

// write writes the contents of the leased pots and releases their leases, in one statement that changes the pots whose
// lease is still valid. A pot whose row is locked in a pass that skips such rows is errHeld and keeps its lease.
func (s *Store) write(
	ctx context.Context, pass coalesce.Pass, leased []*queue, ids pq.Int32Array, numbers pq.StringArray,
) ([]error, error) {
	totals := make(pq.Int64Array, len(leased))
	var pots, kinds pq.Int32Array
	var counts pq.Int64Array
	for i, q := range leased {
		totals[i] = q.after.Total()
		for kind, n := range q.after {
			if n != q.before.Contents[kind] {
				pots, kinds, counts = append(pots, ids[i]), append(kinds, int32(kind)), append(counts, n)
			}
		}
	}
	statement := writeSQL
	if pass.SkipLocked {
		statement = writeFreeSQL
	}
	var written pq.Int32Array
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.QueryRowContext(ctx, statement,
			ids, numbers, totals, pots, kinds, counts, sqldb.Milliseconds(pass.Wait)).Scan(&written)
	})
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	results := make([]error, len(leased))
	var lost []*queue
	for i, q := range leased {
		switch {
		case slices.Contains(written, ids[i]):
			q.lease = nil
		case pass.SkipLocked:
			results[i] = errHeld
			s.lock.Conflict(contention.Held)
		default:
			results[i], lost = errLost, append(lost, q)
			s.lock.Conflict(contention.Lost)
		}
	}
	s.release(ctx, lost...) // one that has expired may still be there
	return results, nil
}
