package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// row holds a pot with its coins, which one statement reads as of one moment and without a lock.
type row struct {
	ID            int32         `db:"id"`
	Name          string        `db:"pot_name"`
	MaxCoins      int32         `db:"max_coins"`
	CreateTime    time.Time     `db:"create_time"`
	Denominations pq.Int64Array `db:"denominations"`
	Counts        pq.Int64Array `db:"counts"`
}

// domain returns the row as a pot.
func (r row) domain() pot.Pot {
	p := pot.Pot{
		ID: pot.ID(r.ID), Name: r.Name, MaxCoins: r.MaxCoins, CreateTime: r.CreateTime.UTC(),
		Contents: make(pot.Contents, len(r.Denominations)),
	}
	for i, kind := range r.Denominations {
		p.Contents[pot.Kind(kind)] = r.Counts[i]
	}
	return p
}

const (
	potColumns = `p.id, p.pot_name, p.max_coins, p.create_time, c.denominations, c.counts`
	ofPot      = `CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(denomination), '{}') AS denominations, coalesce(array_agg(coin_count), '{}') AS counts
         FROM pyggpot.coin WHERE pot_id = p.id AND coin_count > 0) AS c`

	findSQL       = `SELECT ` + potColumns + ` FROM pyggpot.pot AS p ` + ofPot + ` WHERE p.id = $1`
	findByNameSQL = `SELECT ` + potColumns + ` FROM pyggpot.pot AS p ` + ofPot + ` WHERE p.pot_name = $1`

	// Every row has the total; a page beyond the last one has a row without a pot, for the total. The comparison with the
	// total is evaluated before the page is read: behind the last pot OFFSET passes over none.
	listSQL = `
SELECT t.total, coalesce(p.id, 0) AS id, coalesce(p.pot_name, '') AS pot_name, coalesce(p.max_coins, 0) AS max_coins,
       coalesce(p.create_time, 'epoch') AS create_time,
       coalesce(p.denominations, '{}') AS denominations, coalesce(p.counts, '{}') AS counts
  FROM (SELECT count(*) AS total FROM pyggpot.pot) AS t
  LEFT JOIN LATERAL (SELECT ` + potColumns + `
               FROM (SELECT id, pot_name, max_coins, create_time
                       FROM pyggpot.pot WHERE $2 < t.total ORDER BY id LIMIT $1 OFFSET $2) AS p ` + ofPot + `
            ) AS p ON true
 ORDER BY p.id`
)

// Find implements pot.Repository.
func (s *Store) Find(ctx context.Context, id pot.ID) (pot.Pot, error) {
	return s.find(ctx, findSQL, int32(id))
}

// FindByName implements pot.Repository.
func (s *Store) FindByName(ctx context.Context, name string) (pot.Pot, error) {
	return s.find(ctx, findByNameSQL, name)
}

func (s *Store) find(ctx context.Context, query string, key any) (pot.Pot, error) {
	var r row
	err := s.db.GetContext(ctx, &r, query, key)
	if errors.Is(err, sql.ErrNoRows) {
		return pot.Pot{}, pot.ErrNotFound
	}
	if err != nil {
		return pot.Pot{}, err
	}
	return r.domain(), nil
}

// List implements pot.Repository.
func (s *Store) List(ctx context.Context, limit, offset int64) ([]pot.Pot, int64, error) {
	var rows []struct {
		row

		Total int64 `db:"total"`
	}
	if err := s.db.SelectContext(ctx, &rows, listSQL, limit, offset); err != nil {
		return nil, 0, err
	}
	list := make([]pot.Pot, 0, len(rows))
	for _, r := range rows {
		if r.ID != 0 {
			list = append(list, r.domain())
		}
	}
	return list, rows[0].Total, nil // at least one row has the total
}
