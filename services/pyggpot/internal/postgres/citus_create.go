package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// createOnShards is Create where a name and its pot are on different workers. A statement of its own gives the name a
// number, which it keeps. Another one creates the pot with that number, unless there is one, so of many creators of a
// name one succeeds. A pot is created when its row is there. A name whose creator died in between has a number and no
// pot: the next creator of the name creates it.
//
// Both statements may be sent again, so a lost answer is asked for again, and a pot knows its creator. When no answer
// comes the outcome is unknown.
func (s *Store) createOnShards(ctx context.Context, name string, maxCoins int32) (pot.Pot, error) {
	id, err := s.unusedNumber(ctx, name)
	if err != nil {
		return pot.Pot{}, err
	}
	var taken int32 // by a pot of another name
	by := uuid.New()
	for {
		if id == 0 { // a name that has a number takes none of the 2^31
			if err := s.db.GetUnqueued(ctx, &id, nextIDSQL); err != nil {
				return pot.Pot{}, err
			}
		}
		err := s.answered(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.QueryRowContext(ctx, nameSQL, name, id, taken).Scan(&id)
		})
		if err != nil {
			return pot.Pot{}, notApplied(err) // no pot
		}
		var found createdPot
		err = s.answered(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.GetContext(ctx, &found, createOnShardSQL, id, name, maxCoins, by)
		})
		switch {
		case err != nil:
			return pot.Pot{}, err
		case found.Name != name: // the sequence went back, with a standby of the coordinator that lacked its end
			id, taken = 0, id
		case !found.Ours:
			return pot.Pot{}, pot.ErrExists
		default:
			return pot.Pot{ID: pot.ID(id), Name: name, MaxCoins: maxCoins, CreateTime: found.CreateTime.UTC()}, nil
		}
	}
}

// createdPot is what createOnShardSQL returns.
type createdPot struct {
	Name       string    `db:"pot_name"`
	CreateTime time.Time `db:"create_time"`
	Ours       bool      `db:"ours"`
}

// unusedNumber returns the number of a name that has no pot, 0 when it has none, and pot.ErrExists when it has a pot.
func (s *Store) unusedNumber(ctx context.Context, name string) (int32, error) {
	id, err := s.numberOf(ctx, name)
	if errors.Is(err, pot.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	p, err := s.find(ctx, findOnShardSQL, id)
	switch {
	case errors.Is(err, pot.ErrNotFound):
		return id, nil
	case err != nil:
		return 0, err
	case p.Name == name:
		return 0, pot.ErrExists
	}
	return id, nil
}

// answered sends a statement that may be sent more than once, until it is answered. An answer that was lost makes its
// error Unknown, however the later sendings failed: the first one may be executed still.
func (s *Store) answered(ctx context.Context, send func(ctx context.Context, conn *sqlx.Conn) error) error {
	err := s.db.Once(ctx, send)
	if !unknown(err) {
		return err
	}
	lost := err
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveWithin)
	defer cancel()
	for s.sleep(ctx) {
		if err = s.db.Once(ctx, send); err == nil {
			return nil
		}
	}
	return lost
}
