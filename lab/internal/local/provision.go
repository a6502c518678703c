package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
)

// StartPostgres starts a server with a database in a temporary folder of its own below parent. stop stops the server
// and removes the folder.
func StartPostgres(
	ctx context.Context, parent, database string, o localpg.Options,
) (server *localpg.Server, stop func(context.Context) error, err error) {
	if o.Dir, err = serverFolder(parent); err != nil {
		return nil, nil, err
	}
	o.Temporary = true
	if server, err = localpg.Start(ctx, o); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(o.Dir))
	}
	stop = func(ctx context.Context) error {
		return errors.Join(server.Stop(ctx), localpg.Remove(context.WithoutCancel(ctx), o.Dir))
	}
	if err := Database(ctx, server.URL("postgres"), database); err != nil {
		return nil, nil, errors.Join(err, stop(ctx))
	}
	return server, stop, nil
}

// StartMariaDB starts a server in a temporary folder of its own below parent. stop kills the server and removes the
// folder. The error is [localmaria.ErrNotInstalled], by errors.Is, where there is none.
func StartMariaDB(ctx context.Context, parent string) (server *localmaria.Server, stop func() error, err error) {
	dir, err := serverFolder(parent)
	if err != nil {
		return nil, nil, err
	}
	if server, err = localmaria.Start(ctx, localmaria.Options{Dir: dir, Temporary: true}); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return server, func() error { return errors.Join(server.Kill(), os.RemoveAll(dir)) }, nil
}

// serverFolder makes a folder. When root runs this, the server runs as another user, who has to get through.
func serverFolder(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "rowlock-server-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the server: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", errors.Join(fmt.Errorf("open the server's folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
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
