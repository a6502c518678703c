package migrate_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"sync"
	"testing"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newRole makes a role without rights and the URL to log in as it.
func newRole(tb testing.TB, db *sql.DB, rawURL string) (name, roleURL string) {
	tb.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatal(err)
	}
	// Roles belong to the server, so the name is made from the database's.
	sum := sha256.Sum256([]byte(rawURL))
	name = "role_" + hex.EncodeToString(sum[:8])
	execute(tb, db, `CREATE ROLE `+name+` LOGIN PASSWORD 'test'`)
	tb.Cleanup(func() {
		// A role is the server's, not the database's: it would outlive the test.
		ctx := context.WithoutCancel(tb.Context())
		conn, err := db.Conn(ctx)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err = conn.ExecContext(ctx, `DROP OWNED BY `+name+` CASCADE; DROP ROLE `+name); err != nil {
			tb.Errorf("drop the role: %v", err)
		}
		if err = conn.Close(); err != nil {
			tb.Error(err)
		}
	})
	u.User = url.UserPassword(name, "test")
	return name, u.String()
}

// holdLock takes the lock of the schema shop as another process would.
func holdLock(tb testing.TB, db *sql.DB) *sql.Tx {
	tb.Helper()
	tx, err := db.BeginTx(tb.Context(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	// The key is part of the contract between versions of the program: two
	// replicas of different versions must take the same lock.
	sum := sha256.Sum256([]byte("rowlock migrations of shop"))
	key := int64(binary.BigEndian.Uint64(sum[:8]))
	var locked bool
	if err = tx.QueryRowContext(tb.Context(), `SELECT pg_try_advisory_xact_lock($1)`, key).Scan(&locked); err != nil || !locked {
		tb.Fatalf("take the lock: %t, %v", locked, err)
	}
	return tx
}
