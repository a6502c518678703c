package postgres

import (
	"context"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// A page and the items of a claim are returned as one text, one entry a line, because a row costs more than the entry.
//
// Their limits are nested, and hidden in sub-selects: at each the planner then expects a tenth of the rows, and walks
// the key instead of sorting the rows after the position. With a plain LIMIT of a thousand it would sort the whole list
// for each page if the list has just been filled and is not yet analyzed, because it expects a short one.
const (
	existsSQL = `SELECT EXISTS (SELECT FROM (SELECT item FROM iidy.lists WHERE list = $1 ORDER BY item LIMIT 1) AS first)`

	// pageSQL returns no lines if they have more than $4 bytes.
	pageSQL = `
SELECT octet_length(t.lines) AS size, CASE WHEN octet_length(t.lines) <= $4 THEN t.lines ELSE '' END AS lines
  FROM (SELECT coalesce(string_agg(p.item || ' ' || p.attempts, E'\n' ORDER BY p.item), '') AS lines
          FROM (SELECT item, attempts
                  FROM (SELECT item, attempts
                          FROM (SELECT item, attempts
                                  FROM iidy.lists
                                 WHERE list = $1 AND item > $2
                                 ORDER BY item
                                 LIMIT (SELECT $3::bigint)) AS p
                         LIMIT (SELECT $3::bigint)) AS p
                 LIMIT (SELECT $3::bigint)) AS p) AS t`

	countsSQL = `
SELECT count(*) AS items,
       count(*) FILTER (WHERE lease_until > clock_timestamp()) AS claimed,
       count(*) FILTER (WHERE attempts = 0) AS a0,
       count(*) FILTER (WHERE attempts = 1) AS a1,
       count(*) FILTER (WHERE attempts = 2) AS a2,
       count(*) FILTER (WHERE attempts = 3) AS a3,
       count(*) FILTER (WHERE attempts = 4) AS a4,
       count(*) FILTER (WHERE attempts >= 5) AS a5
  FROM iidy.lists
 WHERE list = $1`
)

// Exists implements attempt.Repository.
func (s *Store) Exists(ctx context.Context, list attempt.List) (exists bool, err error) {
	err = s.db.GetContext(ctx, &exists, existsSQL, string(list))
	return exists, err
}

// Page implements attempt.Repository.
func (s *Store) Page(ctx context.Context, list attempt.List, after string, count int) (attempt.Entries, error) {
	var page struct {
		Size  int
		Lines string
	}
	free, err := s.answers.read(ctx, count, func(limit int) (int, error) {
		err := s.db.GetContext(ctx, &page, pageSQL, string(list), after, count, limit)
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
	if err := s.db.GetContext(ctx, &row, countsSQL, string(list)); err != nil {
		return attempt.Counts{}, err
	}
	return attempt.Counts{
		Items: row.Items, Claimed: row.Claimed,
		Attempts: attempt.Buckets{row.A0, row.A1, row.A2, row.A3, row.A4, row.A5},
	}, nil
}
