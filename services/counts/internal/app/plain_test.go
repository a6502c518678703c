package app_test

import (
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the driver
)

// execute runs a statement behind the service's back.
func execute(t *testing.T, dsn, statement string) {
	t.Helper()
	db, err := sqlx.ConnectContext(t.Context(), "postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTxx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), statement)
		err = errors.Join(err, tx.Commit())
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
