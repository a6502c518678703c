package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/events/internal/app"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// TestStartNeedsOneRowOfStatus: start refuses a database in which ids would be given twice, or not at all.
func TestStartNeedsOneRowOfStatus(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := dbtest.Dial(t, dsn)
	for _, tc := range [][2]string{
		{`DELETE FROM events.status`, "exactly one row: events.status holds 0"},
		{`INSERT INTO events.status (id) VALUES (0), (0)`, "exactly one row: events.status holds 2"},
	} {
		apptest.Execute(t, db, tc[0])
		for _, kind := range []chassis.Service[app.Config]{app.Service(), app.Worker()} {
			apptest.RefusesToStart(t, kind, dsn, tc[1])
		}
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range app.Service().Program().Commands {
		names = append(names, c.Name)
		if err := c.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("%s without an environment: %v", c.Name, err)
		}
	}
	if !slices.Equal(names, []string{"serve", "migrate", "healthcheck", "work"}) {
		t.Errorf("the commands are %v", names)
	}
}
