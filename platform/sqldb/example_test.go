package sqldb_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// A service opens one pool, and says by the outcome of an error what a client may do next.
func ExampleDB_InTx() {
	ctx := context.Background()
	db, err := sqldb.Open(ctx, sqldb.Settings{
		URL: "postgres://app@localhost:5432/shop?sslmode=verify-full", ApplicationName: "shop",
	}, slog.Default(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	err = db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = balance - $1 WHERE id = $2`, 5, "alice")
		return err
	})
	switch outcome, fromDatabase := sqldb.OutcomeOf(err); {
	case err == nil:
		fmt.Println("applied")
	case fromDatabase && outcome == sqldb.NotApplied:
		fmt.Println("surely not applied: repeat it")
	default:
		fmt.Println("look before you repeat it")
	}
}

// The password of a URL never shows in an error.
func ExampleOpen() {
	settings := sqldb.Settings{URL: "mysql://app:secret@localhost/shop"}
	_, err := sqldb.Open(context.Background(), settings, slog.Default(), nil)
	fmt.Println(err)
	// Output: the database URL must begin with postgres://
}
