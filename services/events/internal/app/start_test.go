package app_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/services/events/internal/app"
)

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

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	apptest.ConfigRefuses[app.Config](t, map[string]map[string]string{
		"another engine":               {"DATABASE_URL": "oracle://u:s3cret@h/db"},
		"groups take every connection": {"COALESCE_IN_FLIGHT": "3", "DB_MAX_OPEN_CONNS": "4"},
		"workers do":                   {"WORKER_CONCURRENCY": "8"},
		"no batch":                     {"WORKER_BATCH": "0"},
		"migrations go elsewhere":      {"MIGRATE_DATABASE_URL": "mysql://u:s3cret@h/db"},
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
