package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

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
func (s *Store) Page(ctx context.Context, list attempt.List, after string, count int) ([]attempt.Entry, error) {
	var lines string
	if err := s.reads.GetContext(ctx, &lines, pageSQL, string(list), after, count); err != nil {
		return nil, err
	}
	return entries(lines)
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

// entries parses the lines that pageSQL and claimSQL return: the item, a space, the
// attempts. An item may contain spaces; the last one separates.
func entries(lines string) ([]attempt.Entry, error) {
	if lines == "" {
		return nil, nil
	}
	all := make([]attempt.Entry, 0, strings.Count(lines, "\n")+1)
	for line := range strings.SplitSeq(lines, "\n") {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("an entry of %d bytes has no attempts", len(line))
		}
		attempts, err := strconv.ParseInt(line[at+1:], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("an entry's attempts: %w", err)
		}
		all = append(all, attempt.Entry{Item: attempt.Item(line[:at]), Attempts: attempts})
	}
	return all, nil
}
