package apptest

import (
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the driver
)

// Open opens a pool on a PostgreSQL database, without the service, until the test ends.
func Open(t *testing.T, dsn string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.ConnectContext(t.Context(), "postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Execute runs statements in one transaction, without the service.
func Execute(t *testing.T, db *sqlx.DB, statements ...string) {
	t.Helper()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err = tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(errors.Join(err, tx.Rollback()))
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
