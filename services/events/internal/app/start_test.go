package app_test

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/services/events/internal/app"
)

// Start refuses a database in which ids would be given twice, or not at all.
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

func TestStartRefusesInOneSentence(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{
		"no database":                  {"DATABASE_URL": ""},
		"another engine":               {"DATABASE_URL": "oracle://u:s3cret@h/db"},
		"pooler of another engine":     {"DATABASE_URL": "mysql://u:s3cret@h/db", "DB_POOLER": "transaction"},
		"pooler without its flag":      {"DB_POOLER": "transaction"},
		"groups take every connection": {"COALESCE_IN_FLIGHT": "3", "DB_MAX_OPEN_CONNS": "4"},
		"workers do":                   {"WORKER_CONCURRENCY": "8"},
		"no batch":                     {"WORKER_BATCH": "0"},
		"migrations go elsewhere":      {"MIGRATE_DATABASE_URL": "mysql://u:s3cret@h/db"},
	} {
		full := map[string]string{
			"DATABASE_URL": "postgres://u:s3cret@h/db?sslmode=disable", "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0",
		}
		maps.Copy(full, env)
		var cfg app.Config
		err := config.Load(&cfg, full)
		if err == nil {
			_, err = app.Service().New(t.Context(), cfg, chassis.Process{Output: io.Discard})
		}
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	p := app.Service().Program()
	var names []string
	for _, c := range p.Commands {
		names = append(names, c.Name)
		if err := c.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("%s without an environment: %v", c.Name, err)
		}
	}
	if !slices.Equal(names, []string{"serve", "migrate", "work"}) {
		t.Errorf("the commands are %v", names)
	}
}

// The commands themselves, on both engines: migrate makes the schema, serve and
// work run until they are stopped.
func TestCommands(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(bool) string) {
		t.Helper()
		dsn := open(true)
		for _, c := range []string{"migrate", "serve", "work"} {
			i := slices.IndexFunc(app.Service().Program().Commands, func(command commandOf) bool { return command.Name == c })
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- app.Service().Program().Commands[i].Run(ctx, map[string]string{
					"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "LOG_LEVEL": "error",
				})
			}()
			if c == "migrate" {
				if err := <-done; err != nil {
					t.Errorf("%s: %v", c, err)
				}
			}
			stop()
			if c != "migrate" {
				if err := <-done; err != nil {
					t.Errorf("%s: %v", c, err)
				}
			}
		}
	})
}
