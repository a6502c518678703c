package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/platform/localpg"
)

// StartPostgres starts a server with a database.
func StartPostgres(ctx context.Context, database string, o localpg.Options) (*localpg.Server, error) {
	server, err := localpg.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := Database(ctx, server.URL("postgres"), database); err != nil {
		return nil, errors.Join(err, server.Stop(ctx))
	}
	return server, nil
}

// Provision makes roles and schema, runs the migrations as the owner, and leaves in the environment of the service's
// processes the role that can only change rows.
func Provision(ctx context.Context, binary, adminURL string, schema Schema, environ map[string]string) error {
	access, err := Prepare(ctx, adminURL, schema)
	if err != nil {
		return err
	}
	environ["MIGRATE_ON_START"], environ["DATABASE_URL"] = "false", access.Owner
	if err := Migrate(ctx, binary, environ); err != nil {
		return err
	}
	environ["DATABASE_URL"] = access.App
	return Grant(ctx, adminURL, schema)
}

// Environ returns the environment of processes on a server of the lab: a copy without the variables that are about
// another server, and without INTERNAL_HTTP_ADDR, because replicas on one machine need an address each.
func Environ(environ map[string]string) map[string]string {
	env := maps.Clone(environ)
	maps.DeleteFunc(env, func(name, _ string) bool {
		return name == "DB_POOLER" || name == "INTERNAL_HTTP_ADDR" || strings.HasPrefix(name, "PG") ||
			strings.HasSuffix(name, "DATABASE_URL") || strings.HasSuffix(name, "DATABASE_URI")
	})
	return env
}

// Migrate runs `<binary> migrate` with the environment. The error holds the last line that it printed.
func Migrate(ctx context.Context, binary string, environ map[string]string) error {
	cmd := exec.CommandContext(ctx, binary, "migrate")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = Variables(environ)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return fmt.Errorf("%s migrate: %w (%s)", filepath.Base(binary), err, lines[len(lines)-1])
	}
	return nil
}
