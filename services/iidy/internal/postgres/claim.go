package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// taken is a row of claimSQL.
type taken struct {
	Claim   string    `db:"claim"`
	Until   time.Time `db:"until"`
	Entries string    `db:"entries"`
	Expired int64     `db:"expired"` // of the entries, those whose last claim had run out
	Passed  int64     `db:"passed"`  // rows before the first entry
}

// Claim implements attempt.Repository. A lost answer leaves items claimed that
// nobody works on; they are handed out again when the lease is over.
func (s *Store) Claim(ctx context.Context, list attempt.List, count int, lease time.Duration) (attempt.Lease, error) {
	from := s.heads.of(string(list), time.Now())
	t, err := s.claim(ctx, list, from, count, lease)
	if err == nil && t.Entries == "" && from != "" {
		// Nothing is free behind the remembered head; before it there may be.
		s.heads.forget(string(list))
		from = ""
		t, err = s.claim(ctx, list, from, count, lease)
	}
	if err != nil || t.Entries == "" {
		return attempt.Lease{}, err
	}
	all, err := entries(t.Entries)
	if err != nil {
		return attempt.Lease{}, err
	}
	if from == "" && t.Passed > longHead {
		s.heads.remember(string(list), string(all[0].Item), time.Now())
	}
	s.metrics.items.WithLabelValues(claimed).Add(float64(len(all)))
	s.options.Contention.Conflicts(contention.TakenOver, t.Expired)
	return attempt.Lease{Claim: attempt.Claim(t.Claim), Until: t.Until.UTC(), Entries: all}, nil
}

// claim takes free items from an item on.
func (s *Store) claim(ctx context.Context, list attempt.List, from string, count int, lease time.Duration) (t taken, err error) {
	err = s.queue(ctx, func() error {
		return s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.QueryRowxContext(ctx, claimSQL, string(list), from, count, lease.Microseconds(), longHead).StructScan(&t)
		})
	})
	return t, err
}

// Extend implements attempt.Repository.
func (s *Store) Extend(ctx context.Context, list attempt.List, claim attempt.Claim, lease time.Duration) (int64, error) {
	n, err := s.statement(ctx, execute, extendSQL, string(list), string(claim), lease.Microseconds())
	if err == nil {
		s.fenced(claim, 1, n) // a claim has one item at least, while it lasts
	}
	s.metrics.items.WithLabelValues(extended).Add(float64(n))
	return n, err
}

// Release implements attempt.Repository.
func (s *Store) Release(ctx context.Context, list attempt.List, claim attempt.Claim) (int64, error) {
	n, err := s.statement(ctx, execute, releaseSQL, string(list), string(claim))
	if n > 0 {
		s.heads.forget(string(list))
	}
	s.metrics.items.WithLabelValues(released).Add(float64(n))
	return n, err
}

// Abandon implements attempt.Repository. It looks at the whole list, so it has the
// bounds of a long batch.
func (s *Store) Abandon(ctx context.Context, list attempt.List, attempts int64, claim attempt.Claim) (n int64, err error) {
	err = s.inBulk(ctx, s.options.LockTimeout, func(ctx context.Context, tx *sqlx.Tx) (err error) {
		n, err = passes(ctx, tx, abandonSQL, string(list), attempts, string(claim))
		return err
	})
	if err != nil {
		return 0, err
	}
	s.metrics.items.WithLabelValues(abandoned).Add(float64(n))
	return n, nil
}
