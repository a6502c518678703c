package probe

import (
	"context"
	"database/sql"

	renamed "github.com/jmoiron/sqlx"
)

func pool(ctx context.Context, db *sql.DB) {
	_, _ = db.Exec("")                // want forbidigo "InTx or Once"
	_, _ = db.ExecContext(ctx, "")    // want forbidigo "InTx or Once"
	_, _ = db.Prepare("")             // want forbidigo "InTx or Once"
	_, _ = db.PrepareContext(ctx, "") // want forbidigo "InTx or Once"
	_, _ = db.Query("")               // want forbidigo "read with sqldb"
	_, _ = db.QueryContext(ctx, "")   // want forbidigo "read with sqldb"
	_ = db.QueryRow("")               // want forbidigo "read with sqldb"
	_ = db.QueryRowContext(ctx, "")   // want forbidigo "read with sqldb"
	later := db.ExecContext           // want forbidigo "InTx or Once"
	_, _ = later(ctx, "")
}

func sqlxPool(ctx context.Context, db *renamed.DB) {
	_, _ = db.Exec("")                        // want forbidigo "InTx or Once"
	_, _ = db.ExecContext(ctx, "")            // want forbidigo "InTx or Once"
	_, _ = db.DB.ExecContext(ctx, "")         // want forbidigo "InTx or Once"
	_ = db.MustExec("")                       // want forbidigo "InTx or Once"
	_ = db.MustExecContext(ctx, "")           // want forbidigo "InTx or Once"
	_, _ = db.NamedExec("", nil)              // want forbidigo "InTx or Once"
	_, _ = db.NamedExecContext(ctx, "", nil)  // want forbidigo "InTx or Once"
	_, _ = db.Prepare("")                     // want forbidigo "InTx or Once"
	_, _ = db.PrepareContext(ctx, "")         // want forbidigo "InTx or Once"
	_, _ = db.Preparex("")                    // want forbidigo "InTx or Once"
	_, _ = db.PreparexContext(ctx, "")        // want forbidigo "InTx or Once"
	_, _ = db.PrepareNamed("")                // want forbidigo "InTx or Once"
	_, _ = db.PrepareNamedContext(ctx, "")    // want forbidigo "InTx or Once"
	_, _ = db.Query("")                       // want forbidigo "read with sqldb"
	_, _ = db.QueryContext(ctx, "")           // want forbidigo "read with sqldb"
	_ = db.QueryRow("")                       // want forbidigo "read with sqldb"
	_ = db.QueryRowContext(ctx, "")           // want forbidigo "read with sqldb"
	_, _ = db.Queryx("")                      // want forbidigo "read with sqldb"
	_, _ = db.QueryxContext(ctx, "")          // want forbidigo "read with sqldb"
	_ = db.QueryRowx("")                      // want forbidigo "read with sqldb"
	_ = db.QueryRowxContext(ctx, "")          // want forbidigo "read with sqldb"
	_, _ = db.NamedQuery("", nil)             // want forbidigo "read with sqldb"
	_, _ = db.NamedQueryContext(ctx, "", nil) // want forbidigo "read with sqldb"
	_ = db.Get(nil, "")                       // want forbidigo "read with sqldb"
	_ = db.GetContext(ctx, nil, "")           // want forbidigo "read with sqldb"
	_ = db.Select(nil, "")                    // want forbidigo "read with sqldb"
	_ = db.SelectContext(ctx, nil, "")        // want forbidigo "read with sqldb"
}

func functions(ctx context.Context, db *renamed.DB) {
	_ = renamed.MustExec(db, "")                       // want forbidigo "as well as a transaction"
	_ = renamed.MustExecContext(ctx, db, "")           // want forbidigo "as well as a transaction"
	_, _ = renamed.NamedExec(db, "", nil)              // want forbidigo "as well as a transaction"
	_, _ = renamed.NamedExecContext(ctx, db, "", nil)  // want forbidigo "as well as a transaction"
	_, _ = renamed.NamedQuery(db, "", nil)             // want forbidigo "as well as a transaction"
	_, _ = renamed.NamedQueryContext(ctx, db, "", nil) // want forbidigo "as well as a transaction"
	_ = renamed.Get(db, nil, "")                       // want forbidigo "as well as a transaction"
	_ = renamed.GetContext(ctx, db, nil, "")           // want forbidigo "as well as a transaction"
	_ = renamed.Select(db, nil, "")                    // want forbidigo "as well as a transaction"
	_ = renamed.SelectContext(ctx, db, nil, "")        // want forbidigo "as well as a transaction"
	_, _ = renamed.LoadFile(db, "")                    // want forbidigo "as well as a transaction"
	_, _ = renamed.LoadFileContext(ctx, db, "")        // want forbidigo "as well as a transaction"
	_ = renamed.MustConnect("", "")                    // want forbidigo "return the error"
	_ = renamed.MustOpen("", "")                       // want forbidigo "return the error"
}

type interfaces struct {
	_ renamed.Execer         // want forbidigo "hides whether"
	_ renamed.ExecerContext  // want forbidigo "hides whether"
	_ renamed.Ext            // want forbidigo "hides whether"
	_ renamed.ExtContext     // want forbidigo "hides whether"
	_ renamed.Queryer        // want forbidigo "hides whether"
	_ renamed.QueryerContext // want forbidigo "hides whether"
}

// What the rule sends you to passes.
func pinned(ctx context.Context, tx *renamed.Tx, conn *renamed.Conn, plain *sql.Tx, one *sql.Conn) {
	_, _ = tx.ExecContext(ctx, "")
	_, _ = tx.NamedExecContext(ctx, "", nil)
	_ = tx.GetContext(ctx, nil, "")
	_, _ = conn.ExecContext(ctx, "")
	_ = conn.QueryRowxContext(ctx, "")
	_, _ = plain.ExecContext(ctx, "")
	_ = one.QueryRowContext(ctx, "")
}
