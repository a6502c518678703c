package postgres

import (
	"context"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// reader runs reads. They wait for no lock and need no place in the queue, which is for
// changes: the pool bounds them.
type reader interface {
	GetContext(ctx context.Context, dest any, query string, args ...any) error
}

// Exists implements attempt.Repository.
func (s *Store) Exists(ctx context.Context, list attempt.List) (exists bool, err error) {
	err = s.reads.GetContext(ctx, &exists, existsSQL, string(list))
	return exists, err
}

// Page implements attempt.Repository.
func (s *Store) Page(ctx context.Context, list attempt.List, after string, count int) (attempt.Entries, error) {
	var page struct {
		Size  int
		Lines string
	}
	free, err := s.answers.read(ctx, count, func(limit int) (int, error) {
		err := s.reads.GetContext(ctx, &page, pageSQL, string(list), after, count, limit)
		return page.Size, err
	})
	return attempt.NewEntries(page.Lines, free), err
}

// Count implements attempt.Repository.
func (s *Store) Count(ctx context.Context, list attempt.List) (attempt.Counts, error) {
	var row struct {
		Items, Claimed         int64
		A0, A1, A2, A3, A4, A5 int64
	}
	if err := s.reads.GetContext(ctx, &row, countSQL, string(list)); err != nil {
		return attempt.Counts{}, err
	}
	return attempt.Counts{
		Items: row.Items, Claimed: row.Claimed,
		Attempts: attempt.Buckets{row.A0, row.A1, row.A2, row.A3, row.A4, row.A5},
	}, nil
}
