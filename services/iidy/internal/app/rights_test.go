package app_test

import (
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/iidy/internal/app"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// A role that lacks rights is refused at the start, and not at its first long batch.
func TestRightsAreChecked(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := dbtest.Dial(t, dsn)
	role, roleDSN := dbtest.Role(t, dsn)
	const onDatabase = `DO $$ BEGIN EXECUTE format('%s ON DATABASE %%I %s', current_database()); END $$`
	apptest.Execute(t, db, fmt.Sprintf(onDatabase, "REVOKE TEMPORARY", "FROM PUBLIC"),
		`GRANT USAGE ON SCHEMA iidy TO `+role, `GRANT SELECT ON iidy.goose_db_version TO `+role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON iidy.lists, iidy.slots TO `+role)
	apptest.RefusesToStart(t, app.Service(), roleDSN, "GRANT TEMPORARY ON DATABASE")

	apptest.Execute(t, db, fmt.Sprintf(onDatabase, "GRANT TEMPORARY", "TO "+role))
	r := startOn(t, roleDSN, map[string]string{"MIGRATE_ON_START": "false"})
	r.want(t, "POST", batch, numbers(10_001), 201, "ADDED 10001")
}
