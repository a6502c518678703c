package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// createSQL checks the name before it inserts: an INSERT that conflicts takes a number of the identity all the same, so
// a client that repeats a name that exists could use up all 2^31.
const createSQL = `
INSERT INTO pyggpot.pot (pot_name, max_coins)
SELECT $1, $2
 WHERE NOT EXISTS (SELECT FROM pyggpot.pot WHERE pot_name = $1)
    ON CONFLICT (pot_name) DO NOTHING
RETURNING id, create_time`

// Create implements pot.Repository. Beyond the port's errors it returns those of groupcommit.Transact.
func (s *Store) Create(ctx context.Context, name string, maxCoins int32) (pot.Pot, error) {
	create := func(ctx context.Context, tx *sqlx.Tx, _ *groupcommit.Attempt) (pot.Pot, error) {
		p := pot.Pot{Name: name, MaxCoins: maxCoins}
		err := tx.QueryRowxContext(ctx, createSQL, name, maxCoins).Scan(&p.ID, &p.CreateTime)
		if errors.Is(err, sql.ErrNoRows) {
			return pot.Pot{}, pot.ErrExists
		}
		return p, err
	}
	p, err := groupcommit.Transact(ctx, s.slots, "", create)
	p.CreateTime = p.CreateTime.UTC()
	return p, err
}
