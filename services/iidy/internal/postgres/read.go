package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Exists implements attempt.Repository.
func (s *Store) Exists(ctx context.Context, list attempt.List) (exists bool, err error) {
	err = s.db.GetContext(ctx, &exists, existsSQL, string(list))
	return exists, err
}

// Page implements attempt.Repository.
func (s *Store) Page(ctx context.Context, list attempt.List, after string, count int) ([]attempt.Entry, error) {
	var lines string
	if err := s.db.GetContext(ctx, &lines, pageSQL, string(list), after, count); err != nil {
		return nil, err
	}
	return entries(lines)
}

// Progress implements attempt.Repository.
func (s *Store) Progress(ctx context.Context, list attempt.List) (attempt.Progress, error) {
	var row struct {
		Items, Claimed         int64
		A0, A1, A2, A3, A4, A5 int64
	}
	// It reads the whole list, so it queues where batches do.
	err := s.queue(ctx, func() error { return s.db.GetContext(ctx, &row, progressSQL, string(list)) })
	if err != nil {
		return attempt.Progress{}, err
	}
	return attempt.Progress{
		Items: row.Items, Claimed: row.Claimed,
		Attempts: attempt.Buckets{row.A0, row.A1, row.A2, row.A3, row.A4, row.A5},
	}, nil
}

// entries reads the lines that pageSQL and claimSQL give: the item, a space, the
// attempts. An item may have spaces; the last one counts.
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
