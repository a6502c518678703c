package dbtest

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest/pgbouncer"
)

// PgBouncer starts a pgbouncer in transaction mode in front of dsn's database, with poolSize connections to the server, and returns
// dsn led through it, with binary_parameters=yes; it ends with the test. Without pgbouncer installed the test is skipped, or fails
// where the environment says CI=true.
func PgBouncer(t testing.TB, dsn string, poolSize int) string {
	t.Helper()
	environ := config.Environ()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pooler, err := pgbouncer.Start(ctx, environ["PATH"], poolSize, dsn)
	if errors.Is(err, pgbouncer.ErrNotInstalled) {
		if environ["CI"] == "true" {
			t.Fatalf("%v, and with CI=true no test may be skipped for that", err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("dbtest: pgbouncer: %v", err)
	}
	t.Cleanup(func() {
		if err := pooler.Stop(); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	through, err := pooler.DSN(dsn)
	if err != nil {
		t.Fatalf("dbtest: pgbouncer: %v", err)
	}
	return through
}
