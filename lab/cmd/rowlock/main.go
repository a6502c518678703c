// Command rowlock runs, tests and measures the services of Rowlock on one
// machine; it needs neither Docker nor root nor anything set up before.
//
//	rowlock up                     a private PostgreSQL, and replicas of every service behind one address each
//	rowlock bench SERVICE          throughput and latency beside bare pgbench
//	rowlock prove                  break the system and check what was promised; rowlock bites: whether that finds bugs
//	rowlock check --SERVICE=URL    whether running services, wherever they are, keep their promises
//	rowlock drive SERVICE URL      load until standard input ends, and what came of it
//	rowlock sink                   take spans and count them
//	rowlock with-postgres -- CMD   run CMD with a PostgreSQL server to test on
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/lifecycle"
)

// The exit statuses of rowlock, beside those that with-postgres passes on.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitBroken = 3   // prove: the run went well, and a promise was broken
	exitHurry  = 130 // as a shell reports Ctrl-C
	signalBase = 128 // plus the signal's number: as a shell reports a program that a signal ended
)

func main() {
	life := newSignals()
	status := run(life.ctx, process{
		environ: config.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, hurry: life.hurry, globals: true,
	}, os.Args[1:])
	life.stop()
	os.Exit(status)
}

// process is what a command takes from the process that it runs in.
type process struct {
	environ        map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
	// hurry is closed by the second Ctrl-C: whatever still stops in order is to end at once.
	hurry <-chan struct{}
	// globals says that the process is this command's own: what other people's code logs is the command's too.
	globals bool
}

// command is a word on the command line. Its context ends at the first Ctrl-C.
type command struct {
	name, args, help string
	run              func(ctx context.Context, p process, args []string) error
}

// commands is the table of what rowlock can do.
func commands() []command {
	return []command{
		{
			name: "up", args: "[flags]", help: "run PostgreSQL and replicas of every service until Ctrl-C",
			run: up,
		},
		{
			name: "bench", args: "[SERVICE] [flags]", help: "measure a service beside bare pgbench",
			run: runBench,
		},
		{
			name: "prove", args: "[flags]", help: "break the system in every way we know and check what was promised",
			run: runProve,
		},
		{
			name: "bites", args: "[flags]", help: "build services with known bugs and demand that prove finds each within a minute",
			run: runBites,
		},
		{
			name: "check", args: "--SERVICE=URL...", help: "send concurrent requests to running services and compare the results, to the last digit",
			run: runCheck,
		},
		{
			name: "drive", args: "[flags] SERVICE URL [INTERNAL-URL]",
			help: "load until standard input ends, then compare what is stored with what was answered",
			run:  runDrive,
		},
		{
			name: "sink", help: "take spans over OTLP/HTTP, count them and forget them, until standard input ends",
			run: runSink,
		},
		{
			name: "with-postgres", args: "-- CMD...", help: "run CMD with ROWLOCK_TEST_DATABASE_URL naming a server of its own",
			run: withPostgres,
		},
		{
			name: "version", help: "print the version",
			run: func(_ context.Context, p process, _ []string) error {
				_, err := fmt.Fprintln(p.stdout, "rowlock", lifecycle.Version())
				return err //nolint:wrapcheck // there is nothing to add to "write: broken pipe"
			},
		},
	}
}

// usageError is a command line that makes no sense.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// exitStatus is an end with a status that says it all.
type exitStatus int //nolint:errname // it is one: the error is only its way to main

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// run runs the command that args name and returns the exit status.
func run(ctx context.Context, p process, args []string) int {
	return ended(p, dispatch(ctx, p, args))
}

// ended says how a command ended, and returns the exit status.
func ended(p process, err error) int {
	var status exitStatus
	var usage usageError
	var broken violation
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		say(p.stderr, "rowlock: %s; rowlock --help says what there is", usage.text)
		return exitUsage
	case errors.As(err, &broken):
		say(p.stderr, "rowlock: %v", err)
		return exitBroken
	default:
		say(p.stderr, "rowlock: %v", err)
		return exitError
	}
}

func dispatch(ctx context.Context, p process, args []string) error {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		return printHelp(p.stdout)
	}
	names := make([]string, 0, len(commands()))
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, p, args[1:])
		}
		names = append(names, c.name)
	}
	return usageError{fmt.Sprintf("unknown command %q, the commands are %s", args[0], strings.Join(names, ", "))}
}

func printHelp(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(tw, "rowlock: run, test and measure the services of Rowlock on this machine\n\nUsage:")
	for _, c := range commands() {
		say(tw, "  rowlock %s\t%s", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
	say(tw, "\nrowlock COMMAND --help prints the flags of a command.")
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print help: %w", err)
	}
	return nil
}

// say writes a line for people. When nobody can read it, the work goes on.
func say(w io.Writer, format string, args ...any) { //nolint:goprintffuncname // it says a line, it does not print a format
	_, _ = fmt.Fprintf(w, format+"\n", args...)
}

// choose returns the services of those names, all when there are none.
func choose(names []string) ([]services.Service, error) {
	chosen, err := services.Choose(names)
	if err != nil {
		return nil, usageError{err.Error()}
	}
	return chosen, nil
}
