package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// testSchema returns one with a name of its own: roles belong to the whole server.
func testSchema(t *testing.T, admin string) Schema {
	t.Helper()
	s := Schema{Name: `it's "` + strings.ToLower(rand.Text()[:8])}
	t.Cleanup(func() { dropRoles(t, admin, s.RoleNames()...) })
	return s
}

func dropRoles(t *testing.T, admin string, names ...string) {
	t.Helper()
	db := dbtest.Dial(t, admin)
	for _, role := range names {
		role = pq.QuoteIdentifier(role)
		if err := errors.Join(execute(db, `DROP OWNED BY `+role+` CASCADE`), execute(db, `DROP ROLE `+role)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	}
}

// execute runs a statement as a script would.
func execute(db *sqlx.DB, query string) error {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(context.Background(), query)
	return errors.Join(err, conn.Close())
}

func state(err error) string {
	if pqErr, ok := errors.AsType[*pq.Error](err); ok {
		return string(pqErr.Code)
	}
	return fmt.Sprint(err)
}

// wantRights demands that the app role changes rows and nothing else, and that the owner changes the tables.
func wantRights(t *testing.T, s Schema, app, owner string, tables ...string) {
	t.Helper()
	schema, history := pq.QuoteIdentifier(s.Name), pq.QuoteIdentifier(s.historySchema())+`.goose_db_version`
	type step struct{ dsn, query, want string }
	steps := []step{
		{app, `CREATE TEMP TABLE t (x int)`, "<nil>"}, // iidy's long requests
		{app, `SELECT FROM ` + history, "<nil>"},
		{app, `CREATE TABLE ` + schema + `.mine (x int)`, "42501"},
		{app, `CREATE TABLE public.mine (x int)`, "42501"},
		{app, `CREATE SCHEMA mine`, "42501"},
		{app, `SET ROLE ` + pq.QuoteIdentifier(s.owner()), "42501"},
		{owner, `CREATE SCHEMA mine`, "42501"},
		{owner, `CREATE ROLE mine`, "42501"},
	}
	for _, table := range tables {
		table = schema + "." + table
		steps = append(steps,
			step{app, `INSERT INTO ` + table + ` (v) VALUES (1)`, "<nil>"},
			step{app, `UPDATE ` + table + ` SET v = 2`, "<nil>"},
			step{app, `SELECT FROM ` + table + ` FOR UPDATE`, "<nil>"},
			step{app, `DELETE FROM ` + table, "<nil>"},
			step{app, `ALTER TABLE ` + table + ` ADD x int`, "42501"},
			step{app, `TRUNCATE ` + table, "42501"},
			step{app, `DROP TABLE ` + table, "42501"},
			step{owner, `ALTER TABLE ` + table + ` ADD x int`, "<nil>"})
	}
	for _, one := range steps {
		if got := state(execute(dbtest.Dial(t, one.dsn), one.query)); got != one.want {
			t.Errorf("%s: %s, want %s", one.query, got, one.want)
		}
	}
}

func TestTheAppRoleCanChangeRowsAndNothingElse(t *testing.T) {
	t.Parallel()
	admin := dbtest.Empty(t)
	s, others := testSchema(t, admin), testSchema(t, admin)
	s.HistorySchema = s.Name + "_meta"
	owner, app, err := Prepare(t.Context(), admin, s)
	otherOwner, otherApp, otherErr := Prepare(t.Context(), admin, others)
	if err = errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	schema, history := pq.QuoteIdentifier(s.Name), pq.QuoteIdentifier(s.HistorySchema)+`.goose_db_version`
	migration := `CREATE TABLE ` + schema + `.things (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial, v int);
		CREATE TABLE ` + history + ` (id int, version_id bigint)`
	err = errors.Join(execute(dbtest.Dial(t, owner), migration), Grant(t.Context(), admin, s))
	if err != nil {
		t.Fatal(err)
	}

	wantRights(t, s, app, owner, "things")
	for dsn, query := range map[string]string{
		app:        `DELETE FROM ` + history,
		otherApp:   `SELECT FROM ` + schema + `.things`,
		otherOwner: `SELECT FROM ` + schema + `.things`,
	} {
		if got := state(execute(dbtest.Dial(t, dsn), query)); got != "42501" {
			t.Errorf("%s: %s", query, got)
		}
	}
}
