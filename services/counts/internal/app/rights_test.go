package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// A role that lacks rights is refused at the start, and not at each change.
func TestRightsAreChecked(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := dbtest.Dial(t, dsn)
	role, roleDSN := dbtest.Role(t, dsn)
	apptest.Execute(t, db, `GRANT USAGE ON SCHEMA counts TO `+role, `GRANT SELECT ON counts.goose_db_version TO `+role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON counts.count_values TO `+role,
		`GRANT SELECT, INSERT, UPDATE ON counts.slots TO `+role)
	apptest.RefusesToStart(t, app.Service(), roleDSN,
		"needs SELECT, INSERT, UPDATE and DELETE on counts.idempotency_keys, counts.slots")

	apptest.Execute(t, db, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA counts TO `+role)
	start(t, roleDSN, map[string]string{"MIGRATE_ON_START": "false"})
}
