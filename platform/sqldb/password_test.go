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
			connector, err := sqldb.Connector(u.String(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			// want connects, with another password in the file unless it is "-", and checks whether the login is refused.
			want := func(what, password string, refused bool) {
				t.Helper()
				if password != "-" {
					if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				conn, err := connector.Connect(t.Context())
				if err == nil {
					err = conn.Close()
				}
				if sqldb.Misconfigured(err) != refused || !refused && err != nil {
					t.Errorf("%s: %v, want a login that is refused: %t", what, err, refused)
				}
			}

			want("the password", "first", false)
			want("with a line break", "first\n", false)
			want("changed before the role", "next", false)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			want("while the file is exchanged", "-", false)
			ask(tt.alter)
			want("after the change of the role", "next\r\n", false)
			ask(strings.Replace(tt.alter, "next", "third", 1))
			for _, password := range []string{"first", "next", ""} {
				want("another password", password, true)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			want("without the file", "-", true)
		})
	}
}
