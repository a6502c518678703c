package lifecycle

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/rowlock/rowlock/platform/config"
)

// The exit statuses of [Main].
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Program is what a main package hands to [Main].
type Program struct {
	// Name is the name of the binary, such as "counts".
	Name string
	// Summary says in one line what the binary is for; --help prints it.
	Summary string
	// Config returns a pointer to a new configuration struct, whose variables --help prints. Nil leaves the table out.
	Config func() any
	// Commands are what the binary can do beside version; the first is the default.
	Commands []Command
}

// Command is a command of the binary.
type Command struct {
	// Name is the word on the command line, such as "serve".
	Name string
	// Help describes the command in a few words, for --help.
	Help string
	// Run executes the command. Its context ends at the first SIGINT or SIGTERM; context.Cause names the signal.
	Run func(ctx context.Context, environ map[string]string) error
}

// versionCommand is the command that every program has.
const versionCommand = "version"

// Main runs the command that args name, the first one when they name none, and returns the exit status: 0, 1 when the
// command failed, 2 for a bad command line. It writes an error to stderr in one sentence. args are those after the
// program's name, environ is config.Environ().
func Main(p Program, args []string, environ map[string]string, stdout, stderr io.Writer) int {
	name, help, err := parseArgs(args)
	if err == nil && !help && name == versionCommand {
		return p.report(stderr, p.printVersion(stdout))
	}
	var cmd Command
	if err == nil {
		cmd, err = p.find(name)
	}
	if err != nil {
		return p.complain(stderr, fmt.Errorf("%w; run %s --help", err, p.Name), exitUsage)
	}
	if help {
		return p.report(stderr, p.printHelp(stdout))
	}
	ctx, stop := notifyContext(context.Background())
	defer stop()
	return p.report(stderr, cmd.Run(ctx, environ))
}

// notifyContext returns a context that ends at the first SIGINT or SIGTERM, after which these signals have their
// default effect again.
func notifyContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// parseArgs parses the command line: at most one command, and the flags of every binary. An empty name is the default
// command.
func parseArgs(args []string) (name string, help bool, err error) {
	for _, arg := range args {
		switch {
		case arg == "-h" || arg == "-help" || arg == "--help":
			help = true
		case arg == "--version" || arg == "-version":
			arg = versionCommand
			fallthrough
		case !strings.HasPrefix(arg, "-"):
			if name != "" {
				return "", false, fmt.Errorf("unexpected argument %q after %s", arg, name)
			}
			name = arg
		default:
			return "", false, fmt.Errorf("unknown flag %q: settings are environment variables", arg)
		}
	}
	if name == "help" {
		return "", true, nil
	}
	return name, help, nil
}

func (p Program) find(name string) (Command, error) {
	if name == "" && len(p.Commands) > 0 {
		return p.Commands[0], nil
	}
	names := make([]string, 0, len(p.Commands)+1)
	for _, c := range append(slices.Clip(p.Commands), Command{Name: versionCommand}) { // its --help is that of the program
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Command{}, fmt.Errorf("unknown command %q, the commands are %s", name, strings.Join(names, ", "))
}

// report returns the exit status for the error of a command.
func (p Program) report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	return p.complain(stderr, err, exitError)
}

func (p Program) complain(stderr io.Writer, err error, status int) int {
	_, _ = fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	return status
}

// printHelp prints the commands and the table of variables.
func (p Program) printHelp(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s [command]\n\nCommands:\n", p.Name, p.Summary, p.Name)
	commands := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, c := range append(slices.Clip(p.Commands), Command{Name: versionCommand, Help: "print the version"}) {
		if i == 0 {
			c.Help += " (default)"
		}
		_, _ = fmt.Fprintf(commands, "  %s\t%s\n", c.Name, c.Help) // a strings.Builder does not fail
	}
	err := commands.Flush()
	if err == nil && p.Config != nil {
		b.WriteString("\nEnvironment:\n")
		err = config.Usage(&b, p.Config())
	}
	if err == nil {
		_, err = io.WriteString(w, b.String())
	}
	if err != nil {
		return fmt.Errorf("print help: %w", err)
	}
	return nil
}
