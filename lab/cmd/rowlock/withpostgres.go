package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localpg"
)

// testDatabaseURL names the server that tests use; platform/testkit/dbtest reads it.
const testDatabaseURL = "ROWLOCK_TEST_DATABASE_URL"

func newWithPostgres(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "with-postgres -- CMD [ARG...]",
		Short: "Run CMD with a private PostgreSQL server to test on",
		Long: "Start a private PostgreSQL server, run CMD with its address in " + testDatabaseURL + ",\n" +
			"and stop the server. " +
			"The exit status is that of CMD. A server that the variable names already is used as it is.",
		Example: "  rowlock with-postgres -- go test ./...",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usageError{"with-postgres needs a command: rowlock with-postgres -- go test ./..."}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return withPostgres(cmd.Context(), p, args) },
	}
	cmd.Flags().SetInterspersed(false) // the flags behind CMD are its own
	return cmd
}

// withPostgres runs the command args with a private server and returns the command's status as an [exitStatus].
func withPostgres(ctx context.Context, p process, args []string) error {
	// Looked for before a server is started.
	if _, err := exec.LookPath(args[0]); err != nil {
		return fmt.Errorf("with-postgres cannot run %q: %w", args[0], err)
	}
	if p.environ[testDatabaseURL] != "" {
		return runCommand(ctx, p, p.environ, args)
	}

	server, err := localpg.Start(ctx, localpg.Options{
		Progress: p.stderr, Environ: p.environ,
		// Nothing is flushed to the disk. Only a loss of power would lose data: killed processes, the server's
		// own included, lose none.
		Settings: map[string]string{"fsync": "off", "full_page_writes": "off"},
	})
	if err != nil {
		return fmt.Errorf("start a test server: %w", err)
	}

	environ := maps.Clone(p.environ)
	environ[testDatabaseURL] = server.URL("postgres")
	err = runCommand(ctx, p, environ, args)
	stopping, cancel := p.stopping()
	defer cancel()
	return errors.Join(err, server.Stop(stopping))
}

// runCommand runs a command to its end. A terminal sends Ctrl-C to the command itself; a signal to this process alone
// is passed on as SIGTERM, a second one as SIGKILL.
func runCommand(ctx context.Context, p process, environ map[string]string, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, p.stdout, p.stderr
	cmd.Env = local.Variables(environ)
	cmd.Cancel = func() error {
		context.AfterFunc(p.hurry, func() { _ = cmd.Process.Kill() }) // fails when it has ended
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	return commandStatus(args[0], cmd.Run())
}

// commandStatus returns the status that a shell would report.
func commandStatus(name string, err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil, errors.Is(err, context.Canceled): // it still ended in order
		return nil
	case !ok:
		return fmt.Errorf("run %s: %w", name, err)
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exitStatus(signalBase + int(ws.Signal()))
	}
	return exitStatus(exit.ExitCode())
}
