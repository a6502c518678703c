package app_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/events/internal/app"
)

// execute runs a statement on the table status without the service.
func execute(t *testing.T, dsn, statement string) {
	t.Helper()
	table := "events.status"
	if strings.HasPrefix(dsn, "mysql://") {
		table = "status"
	}
	db := apptest.Pool(t, sqldb.Settings{URL: dsn, Engines: []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL}}, nil)
	err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(statement, table))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStartNeedsOneRowOfStatus: start refuses a database in which ids would be given twice, or not at all.
func TestStartNeedsOneRowOfStatus(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(bool) string) {
		t.Helper()
		dsn := open(false)
		for _, tc := range []struct {
			statement string
			rows      string
		}{{`DELETE FROM %s`, "holds 0"}, {`INSERT INTO %s (id) VALUES (0), (0)`, "holds 2"}} {
			execute(t, dsn, tc.statement)
			for _, kind := range []chassis.Service[app.Config]{app.Service(), app.Worker()} {
				a, err := kind.New(t.Context(), apptest.Config[app.Config](t, dsn), chassis.Process{Output: io.Discard})
				if err != nil {
					t.Fatal(err)
				}
				err = a.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), "exactly one row") || !strings.Contains(err.Error(), tc.rows) {
					t.Errorf("%s: %v", tc.statement, err)
				}
			}
		}
	})
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
	if !slices.Equal(names, []string{"serve", "migrate", "work"}) {
		t.Errorf("the commands are %v", names)
	}
}
