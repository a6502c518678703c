package app_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// A role that lacks rights is refused at the start, and not at each change.
func TestRightsAreChecked(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(dbtest.Postgres(t, postgres.Migrations()))
	if err != nil {
		t.Fatal(err)
	}
	db := dbtest.Dial(t, u.String())
	role := "plain_" + strings.ToLower(rand.Text()) // the server's, for all databases
	apptest.Execute(t, db, `CREATE ROLE `+role+` LOGIN PASSWORD 'test'`, `GRANT USAGE ON SCHEMA counts TO `+role,
		`GRANT SELECT ON counts.goose_db_version TO `+role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON counts.count_values TO `+role,
		`GRANT SELECT, INSERT, UPDATE ON counts.slots TO `+role)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := db.Conn(ctx)
		if err == nil {
			_, err = conn.ExecContext(ctx, `DROP OWNED BY `+role+`; DROP ROLE `+role)
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			t.Errorf("drop the role: %v", err)
		}
	})
	u.User = url.UserPassword(role, "test")
	refused, err := app.Service().New(t.Context(), apptest.Config[app.Config](t, u.String()),
		chassis.Process{Output: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	const part = "needs SELECT, INSERT, UPDATE and DELETE on counts.idempotency_keys, counts.slots"
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := refused.Run(ctx); err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("the start: %v, want %q", err, part)
	}
	apptest.Execute(t, db, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA counts TO `+role)
	start(t, u.String(), map[string]string{"MIGRATE_ON_START": "false"})
}
