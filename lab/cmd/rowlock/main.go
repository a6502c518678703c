// Command rowlock runs, tests and measures the services of Rowlock on one machine. It needs neither Docker nor root
// nor anything set up before.
//
//	rowlock up                     run a private PostgreSQL, and replicas of every service behind one address each
//	rowlock bench SERVICE          measure throughput and latency beside bare pgbench
//	rowlock prove                  inject faults and check the promises
//	rowlock mutation-test          build known bugs in and check that prove finds each
//	rowlock check --SERVICE=URL    check running services against their promises
//	rowlock drive SERVICE URL      send load until standard input ends, and check the sums
//	rowlock with-postgres -- CMD   run CMD with a PostgreSQL server to test on
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/lifecycle"
)

// The exit statuses of rowlock. with-postgres passes on those of its command.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitBroken = 3   // prove: the run was completed, and a promise was broken
	exitKilled = 130 // the second Ctrl-C, as a shell reports it
	signalBase = 128 // plus the number of the signal that ended with-postgres' command, as a shell reports it
)

func main() {
	ctx, hurry, stop := newSignals()
	status := run(ctx, process{
		environ: config.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, hurry: hurry, globals: true,
		terminal: terminal(os.Stderr),
	}, os.Args[1:])
	stop()
	os.Exit(status)
}

// terminal returns the file if it is a terminal, and nil if it is not.
func terminal(file *os.File) io.Writer {
	if term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// process holds what a command takes from the process that it runs in.
type process struct {
	environ        map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
	// terminal shows the progress of long commands; nil where stderr is none.
	terminal io.Writer
	// hurry ends with the second Ctrl-C: orderly stops then end at once.
	hurry context.Context
	// globals lets a command capture the process' global loggers. Tests, which share a process, leave it false.
	globals bool
}

// newRoot returns the command rowlock. The context of its commands ends at the first Ctrl-C.
func newRoot(p process) *cobra.Command {
	root := &cobra.Command{
		Use: "rowlock", Short: "Run, test and measure the services of Rowlock on this machine",
		Version:       lifecycle.Version(),
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Sprintf("unknown command %q", args[0])}
			}
			return cmd.Help()
		},
	}

	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{strings.TrimPrefix(cmd.Name()+": "+err.Error(), "rowlock: ")}
	})

	root.AddCommand(
		newUp(p), newBench(p), newProve(p), newMutationTest(p), newCheck(p), newDrive(p), newWithPostgres(p), newVersion(),
	)
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noWords, Example: "  rowlock version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "rowlock", lifecycle.Version())
			return err
		},
	}
}

// run runs the command that args name and returns the exit status.
func run(ctx context.Context, p process, args []string) int {
	root := newRoot(p)
	root.SetArgs(args)
	return exitCode(p, root.ExecuteContext(ctx))
}

// usageError reports a command line that cannot be used.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// exitStatus ends the process with a status; what there is to say was printed before.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exitCode prints the error of a command and returns the exit status.
func exitCode(p process, err error) int {
	var status exitStatus
	var usage usageError
	var broken violation
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		say(p.stderr, "rowlock: %s; see rowlock --help", usage.text)
		return exitUsage
	case errors.As(err, &broken):
		say(p.stderr, "rowlock: %v", err)
		return exitBroken
	default:
		say(p.stderr, "rowlock: %v", err)
		return exitError
	}
}

// noWords refuses arguments that are no flags. One may be a URL with a password, so it is not repeated then.
func noWords(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case strings.Contains(args[0], "://"):
		return usageError{cmd.Name() + ": a URL must follow its flag, such as --dsn"}
	default:
		return usageError{fmt.Sprintf("%s: unexpected argument %q", cmd.Name(), args[0])}
	}
}

// serviceFlag defines --service, which may be given several times.
func serviceFlag(cmd *cobra.Command, names *[]string, verb string) {
	cmd.Flags().StringArrayVar(names, "service", nil, verb+" this service instead of all; may be repeated")
	// The error would be about a flag that is not defined.
	_ = cmd.RegisterFlagCompletionFunc("service",
		cobra.FixedCompletions(targets.Names(), cobra.ShellCompDirectiveNoFileComp))
}

// seedFlag defines --seed, whose default is a new random value for each run.
func seedFlag(flags *pflag.FlagSet, seed *uint64) {
	flags.Uint64Var(seed, "seed", rand.Uint64N(1<<32), "seed of the schedule")
	flags.Lookup("seed").DefValue = "random"
}

// choose returns the services of those names, all when there are none.
func choose(names []string) ([]targets.Service, error) {
	chosen, err := targets.Choose(names)
	if err != nil {
		return nil, usageError{err.Error()}
	}
	return chosen, nil
}

// say writes a line. An error of w is ignored: the work goes on without a reader.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format+"\n", args...)
}

// newSignals turns signals into stops: the first one ends ctx, the second one ends hurry, the third one has its default
// effect. SIGHUP, of a closed terminal, counts too, so that no server is left behind.
func newSignals() (ctx, hurry context.Context, stop func()) {
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancelCause(context.Background())
	hurry, now := context.WithCancel(context.Background())
	go func() {
		cancel(fmt.Errorf("received %v: %w", <-received, context.Canceled))
		<-received
		now()
		signal.Stop(received)
	}()
	return ctx, hurry, func() { signal.Stop(received) }
}

// stopTimeout bounds the end of what a command runs when it is over or was interrupted.
const stopTimeout = 30 * time.Second

// stopping returns a context to stop processes in: it ends after stopTimeout or with the second Ctrl-C.
func (p process) stopping() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.hurry, stopTimeout)
}
