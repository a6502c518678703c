package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// valueColumns are named as the fields of counting.CountValue.
const valueColumns = `item_id AS itemid, current_value AS current, last_updated_at AS updatedat`

// Find implements counting.CountValueRepository.
func (s *Store) Find(ctx context.Context, id counting.ItemID) (counting.CountValue, error) {
	const query = `
SELECT ` + valueColumns + `
  FROM counts.count_values
 WHERE item_id = $1`

	var v counting.CountValue
	err := s.limits.DB.GetContext(ctx, &v, query, string(id))
	if errors.Is(err, sql.ErrNoRows) {
		return counting.CountValue{}, counting.ErrNotFound
	}
	v.UpdatedAt = v.UpdatedAt.UTC()
	return v, err
}

// FindMany implements counting.CountValueRepository.
func (s *Store) FindMany(ctx context.Context, ids []counting.ItemID) ([]counting.CountValue, error) {
	const query = `
SELECT ` + valueColumns + `
  FROM counts.count_values
 WHERE item_id = ANY ($1)`

	names := make(pq.StringArray, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	return s.values(ctx, query, names)
}

// values runs a query that returns counts.
func (s *Store) values(ctx context.Context, query string, args ...any) ([]counting.CountValue, error) {
	values := []counting.CountValue{}
	err := s.limits.DB.SelectContext(ctx, &values, query, args...)
	for i := range values {
		values[i].UpdatedAt = values[i].UpdatedAt.UTC()
	}
	return values, err
}

// pageSQL reads at most limit rows, in the order of the index. A planner that sees the values may expect a short range,
// and read and sort all of it for each page. So the end of the prefix stands in the outer query, and the other values
// in sub-selects, which the planner does not estimate.
const pageSQL = `
SELECT ` + valueColumns + `
  FROM (SELECT item_id, current_value, last_updated_at
          FROM counts.count_values
         WHERE item_id >= (SELECT $1::text)
           AND item_id > (SELECT $2::text)
         ORDER BY item_id
         LIMIT $3) page
 WHERE item_id < $4
 ORDER BY item_id`

// Page implements counting.CountValueRepository.
func (s *Store) Page(ctx context.Context, prefix, after string, limit int) ([]counting.CountValue, error) {
	return s.values(ctx, pageSQL, prefix, after, limit, prefixEnd(prefix))
}

// prefixEnd returns the least text that is greater, in byte order, than every item id that begins with prefix. Valid
// UTF-8 sorts by bytes as it does by code points, so the result is the prefix with its last code point incremented; the
// greatest code point is dropped first. (Incrementing the last byte would not always give valid UTF-8.)
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if last == utf8.MaxRune {
			continue
		}
		next := last + 1
		if !utf8.ValidRune(next) { // skip the surrogates, which UTF-8 excludes
			next = surrogateMax + 1
		}
		return prefix + string(next)
	}
	return strings.Repeat(string(utf8.MaxRune), counting.MaxItemIDBytes/utf8.UTFMax+1) // greater than every item id
}

// surrogateMax is the last surrogate, the range that UTF-8 excludes.
const surrogateMax = 0xDFFF
