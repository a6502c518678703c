package migrate_test

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

// holdLock takes the lock of the schema shop as another process does. The key is a contract between releases:
// replicas of two of them must take the same lock.
func holdLock(t *testing.T, db *sqlx.DB) apptest.Holder {
	t.Helper()
	sum := sha256.Sum256([]byte("rowlock migrations of shop"))
	return apptest.Hold(t, db, `SELECT pg_advisory_xact_lock($1)`, int64(binary.BigEndian.Uint64(sum[:8])))
}

// patience is how long the migrations of a test wait for the lock: longer than any test.
const patience = 5 * time.Minute

// up applies the migrations.
func up(t *testing.T, dsn string, src migrate.Source) {
	t.Helper()
	if err := migrate.Up(t.Context(), dsn, src, patience, quiet()); err != nil {
		t.Fatal(err)
	}
}

// verify fails the test unless all migrations are applied.
func verify(t *testing.T, dsn string, src migrate.Source) {
	t.Helper()
	if err := migrate.Verify(t.Context(), dsn, src, quiet()); err != nil {
		t.Error(err)
	}
}
