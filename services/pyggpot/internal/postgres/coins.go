package postgres

import (
	"context"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// coinsSQL reads the coins of pots, which only the holder of the lease changes: the fence of the write that follows
// makes sure that it still is.
const coinsSQL = `
SELECT coalesce(array_agg(pot_id), '{}') AS pots, coalesce(array_agg(denomination), '{}') AS denominations,
       coalesce(array_agg(coin_count), '{}') AS counts
  FROM pyggpot.coin
 WHERE pot_id = ANY($1::integer[]) AND coin_count > 0`

// coins holds what coinsSQL returns: an element of each array for each kind of a pot.
type coins struct {
	pots, kinds pq.Int32Array
	counts      pq.Int64Array
}

// of returns the contents of a pot.
func (c coins) of(id pot.ID) pot.Contents {
	contents := make(pot.Contents)
	for i, n := range c.pots {
		if n == int32(id) {
			contents[pot.Kind(c.kinds[i])] = c.counts[i]
		}
	}
	return contents
}

// read reads the contents of the leased pots that have none yet.
func (s *Store) read(ctx context.Context, leased []*queue) error {
	var unread []*queue
	var ids pq.Int32Array
	for _, q := range leased {
		if q.before.Contents == nil {
			unread, ids = append(unread, q), append(ids, int32(q.id))
		}
	}
	if len(unread) == 0 {
		return nil
	}
	var seen coins
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.QueryRowContext(ctx, coinsSQL, ids).Scan(&seen.pots, &seen.kinds, &seen.counts)
	})
	for _, q := range unread {
		if err == nil {
			q.before.Contents = seen.of(q.id)
		}
	}
	return err
}
