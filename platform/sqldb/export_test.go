package sqldb

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// LookUpOfHistory commits a transaction and returns what a look-up says of it that takes
// the server for one with that history; "" is the server's own.
func (db *DB) LookUpOfHistory(ctx context.Context, history string) (string, error) {
	var done xact
	err := db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &done.serverRun, currentRun); err != nil {
			return err
		}
		return tx.GetContext(ctx, &done.id, currentXact)
	})
	if history != "" {
		done.History = history
	}
	if err != nil {
		return "", err
	}
	return string(db.lookUp(ctx, &done)), nil
}
