package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"
)

// Role creates a login role without rights until the test ends, and returns its name and the URL of dsn's database with
// which it logs in. Roles belong to the server, so its name is random.
func Role(t testing.TB, dsn string) (name, roleDSN string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("dbtest: the database's URL cannot be read") // err would repeat the password
	}

	name = "role_" + strings.ToLower(rand.Text())
	execute := func(ctx context.Context, statement string) {
		if err := onAdmin(ctx, dsn, func(conn *sql.Conn) error { return run(ctx, conn, statement) }); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	}
	execute(t.Context(), "CREATE ROLE "+name+" LOGIN PASSWORD 'test'")
	t.Cleanup(func() {
		execute(context.WithoutCancel(t.Context()), "DROP OWNED BY "+name+" CASCADE; DROP ROLE "+name)
	})

	u.User = url.UserPassword(name, "test")
	return name, u.String()
}
