//go:build !bug_autocommit

package postgres

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// once sends the one statement of a change. It is not sent again while its outcome may be unknown.
func (s *Store) once(ctx context.Context, fn func(ctx context.Context, conn *sqlx.Conn) error) error {
	return s.db.Once(ctx, fn)
}
