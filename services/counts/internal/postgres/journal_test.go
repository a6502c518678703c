package postgres_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// The tables of a group's answers and of the keys take what they are for, and nothing twice.
func TestJournalTables(t *testing.T) {
	t.Parallel()
	db := dbtest.Dial(t, dbtest.Postgres(t, postgres.Migrations()))
	const id = `'00000000-0000-7000-8000-000000000001'`
	journal := `INSERT INTO counts.journal VALUES (` + id + `, array_fill(9000000000000000000::bigint, ARRAY[1000]), now())`
	key := `INSERT INTO counts.idempotency_keys (key, fingerprint, group_id, position, expires_at)
		VALUES ('k', '\x00', ` + id + `, 1, now())`
	apptest.Execute(t, db, journal, key)
	for _, again := range []string{journal, key} {
		if _, err := db.ExecContext(t.Context(), again); !sqldb.IsUniqueViolation(err) {
			t.Errorf("a second row: %v", err)
		}
	}
}
