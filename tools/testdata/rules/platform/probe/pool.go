package probe

import (
	"context"
	"database/sql"

	renamed "github.com/jmoiron/sqlx"
)

func pool(ctx context.Context, db *sql.DB) {
	_, _ = db.Prepare("")   // want forbidigo "InTx or Once"
	_ = db.QueryRow("")     // want forbidigo "read with GetContext"
	later := db.ExecContext // want forbidigo "InTx or Once"
	_, _ = later(ctx, "")
}

func sqlxPool(ctx context.Context, db *renamed.DB) {
	_, _ = db.DB.ExecContext(ctx, "")        // want forbidigo "InTx or Once"
	_ = db.MustExec("")                      // want forbidigo "InTx or Once"
	_, _ = db.NamedExecContext(ctx, "", nil) // want forbidigo "InTx or Once"
	_, _ = db.PreparexContext(ctx, "")       // want forbidigo "InTx or Once"
	_ = db.QueryRowxContext(ctx, "")         // want forbidigo "read with GetContext"
	_, _ = db.NamedQuery("", nil)            // want forbidigo "read with GetContext"
	_ = db.GetContext(ctx, nil, "")          // want forbidigo "read with GetContext"
	_ = db.Select(nil, "")                   // want forbidigo "read with GetContext"
}

func functions(ctx context.Context, db *renamed.DB) {
	_ = renamed.MustExec(db, "")             // want forbidigo "as well as a transaction"
	_, _ = renamed.NamedQuery(db, "", nil)   // want forbidigo "as well as a transaction"
	_ = renamed.GetContext(ctx, db, nil, "") // want forbidigo "as well as a transaction"
}

type interfaces struct {
	_ renamed.ExecerContext // want forbidigo "as well as a transaction"
	_ renamed.Ext           // want forbidigo "as well as a transaction"
	_ renamed.Queryer       // want forbidigo "as well as a transaction"
}

// What the rule sends you to passes.
func pinned(ctx context.Context, tx *renamed.Tx, conn *renamed.Conn, plain *sql.Tx, one *sql.Conn) {
	_, _ = tx.NamedExecContext(ctx, "", nil)
	_ = tx.GetContext(ctx, nil, "")
	_ = conn.QueryRowxContext(ctx, "")
	_, _ = plain.ExecContext(ctx, "")
	_ = one.QueryRowContext(ctx, "")
}
