package local

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Execute sends one statement, once, outside of a transaction.
func Execute(ctx context.Context, db *sqldb.DB, statement string) error {
	return db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, statement)
		return err //nolint:wrapcheck // Once classifies it
	})
}
