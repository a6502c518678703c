package sqldb_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// A password file is read for each connection. Where it changes before the role does, or is away for a moment, the
// password of the connection before is taken; where neither fits, the login is refused.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	for engine, tt := range map[string]struct {
		database            func(testing.TB) string
		create, alter, drop string
	}{
		"postgresql": {
			dbtest.Empty, "CREATE ROLE who LOGIN PASSWORD 'first'", "ALTER ROLE who PASSWORD 'next'", "DROP ROLE who",
		},
		"mysql": {
			dbtest.EmptyMariaDB, "CREATE USER who IDENTIFIED BY 'first'", "ALTER USER who IDENTIFIED BY 'next'",
			"DROP USER who",
		},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			admin := tt.database(t)
			db, who := open(t, admin), "who_"+strings.ToLower(rand.Text()[:8])
			ask := func(statement string) {
				t.Helper()
				statement = strings.Replace(statement, "who", who, 1)
				if err := execOnce(context.WithoutCancel(t.Context()), db, statement); err != nil {
					t.Fatal(err)
				}
			}
			ask(tt.create)
			t.Cleanup(func() { ask(tt.drop) })
			u, err := url.Parse(admin)
			if err != nil {
				t.Fatal(err)
			}
			if engine == "mysql" {
				u.Path = "/information_schema" // which an account without rights may use
			}
			file := filepath.Join(t.TempDir(), "password")
			query := u.Query()
			query.Set("password_file", file)
			u.User, u.RawQuery = url.User(who), query.Encode()
			connector, err := sqldb.Connector(u.String())
			if err != nil {
				t.Fatal(err)
			}
			connect := func(password string) error {
				if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
					t.Fatal(err)
				}
				conn, err := connector.Connect(t.Context())
				if err != nil {
					return err
				}
				return conn.Close()
			}
			for _, password := range []string{"first", "first\n", "next"} {
				if err := connect(password); err != nil {
					t.Errorf("%q: %v", password, err)
				}
			}
			if err := os.Rename(file, file+".away"); err != nil {
				t.Fatal(err)
			}
			if conn, err := connector.Connect(t.Context()); err != nil {
				t.Errorf("while the file is exchanged: %v", err)
			} else if err := conn.Close(); err != nil {
				t.Error(err)
			}
			ask(tt.alter)
			if err := connect("next\r\n"); err != nil {
				t.Errorf("after the change of the role: %v", err)
			}
			if err := open(t, u.String()).Ping(t.Context()); err != nil {
				t.Errorf("a pool: %v", err)
			}
			ask(strings.Replace(tt.alter, "next", "third", 1))
			for _, password := range []string{"first", "next", ""} {
				if err := connect(password); !sqldb.Misconfigured(err) {
					t.Errorf("%q: %v, want a login that is refused", password, err)
				}
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := open(t, u.String()).Ping(t.Context()); !sqldb.Misconfigured(err) {
				t.Errorf("without the file: %v", err)
			}
		})
	}
}
