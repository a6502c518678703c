package dbtest

import (
	"context"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/pgbouncer"
)

// PgBouncer starts a pgbouncer in transaction mode in front of dsn's database, with poolSize
// connections to the server. It returns dsn with its address and binary_parameters=yes. The pgbouncer
// ends with the test. If it is not installed, the test is skipped, or fails with CI=true.
func PgBouncer(t testing.TB, dsn string, poolSize int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	pooler, err := pgbouncer.Start(ctx, config.Environ()["PATH"], poolSize, dsn)
	skipOrFail(t, err, pgbouncer.ErrNotInstalled)
	stopAtEnd(t, func(context.Context) error { return pooler.Stop() })

	through, err := pooler.DSN(dsn)
	if err != nil {
		t.Fatalf("dbtest: pgbouncer: %v", err)
	}
	return through
}
