package migrate_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

// newRole makes a role without rights, until the test ends, and returns its name and the URL to log in as it.
func newRole(t *testing.T, db *sqlx.DB, rawURL string) (name, roleURL string) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	// A role belongs to the server, so its name is made from the database's, and it would outlive the test.
	sum := sha256.Sum256([]byte(rawURL))
	name = "role_" + hex.EncodeToString(sum[:8])
	apptest.Execute(t, db, `CREATE ROLE `+name+` LOGIN PASSWORD 'test'`)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := db.Conn(ctx)
		if err == nil {
			_, err = conn.ExecContext(ctx, `DROP OWNED BY `+name+` CASCADE; DROP ROLE `+name)
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			t.Errorf("drop the role: %v", err)
		}
	})
	u.User = url.UserPassword(name, "test")
	return name, u.String()
}

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
