package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
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

// run leases and reads pots, computes the changes of their callers, and writes them. It returns coalesce.ErrLockWait or
// coalesce.ErrSplit as it is to be called again; the pots keep their leases then. The error of a pot is in its answer.
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

// change reads the leased pots whose coins the lease did not read, computes the changes of their callers, and writes
// them. It returns what became of each pot, or the error of all.
func (s *Store) change(ctx context.Context, pass coalesce.Pass, leased []*queue) ([]error, error) {
	if err := s.read(ctx, leased); err != nil {
		return nil, notApplied(err)
	}
	for _, q := range leased {
		q.after = applyAll(q.before, s.take(ctx, q))
	}
	return s.write(ctx, pass, leased)
}

// write writes the contents of the leased pots and releases their leases. A pot whose row is locked in a pass that
// skips such rows is errHeld and keeps its lease.
func (s *Store) write(ctx context.Context, pass coalesce.Pass, leased []*queue) ([]error, error) {
	written, err := s.send(ctx, pass, leased)
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	results := make([]error, len(leased))
	var lost []*queue
	for i, q := range leased {
		switch {
		case slices.Contains(written, int32(q.id)):
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

// send sends the one statement of write, which changes the pots whose lease is still valid, and returns these.
func (s *Store) send(ctx context.Context, pass coalesce.Pass, leased []*queue) (written pq.Int32Array, err error) {
	ids, numbers := identify(leased)
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
	err = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.QueryRowContext(ctx, statement,
			ids, numbers, totals, pots, kinds, counts, sqldb.Milliseconds(pass.Wait)).Scan(&written)
	})
	return written, err
}
