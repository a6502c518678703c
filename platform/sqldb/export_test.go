package sqldb

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// Pool returns the pool without the guarantees of DB.
func (db *DB) Pool() *sqlx.DB { return db.pool }

// Rebind returns a query with the placeholders of the engine.
func (s Statements) Rebind(query string) string { return s.db.pool.Rebind(query) }

// StatementContext returns the context of a statement.
func (db *DB) StatementContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return db.statementContext(ctx)
}
