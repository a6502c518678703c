package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

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
	// Summary is one line that says what it is for; --help prints it.
	Summary string
	// Config returns a fresh pointer to the configuration's struct, from which
	// --help prints the table of variables. Nil leaves the table out.
	Config func() any
	// Commands are what the binary can do; the first is the default. The name
	// version is taken.
	Commands []Command
}

// Command is one thing that the binary can do.
type Command struct {
	// Name is the word on the command line, such as "serve".
	Name string
	// Help is what --help says about it, in a few words.
	Help string
	// Run does it. Its context ends at the first SIGINT or SIGTERM; context.Cause
	// names the signal.
	Run func(ctx context.Context, environ map[string]string) error
}

// Main runs the command that args name, the first one when they name none, and
// returns the exit status: 0, 1 when the command failed (the error, one
// sentence, is on stderr), 2 when the command line makes no sense. args are
// those after the program's name, environ is config.Environ().
func Main(p Program, args []string, environ map[string]string, stdout, stderr io.Writer) int {
	name, help, err := parseArgs(args)
	if err == nil && !help && name == "version" {
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

// notifyContext returns a context that ends at the first SIGINT or SIGTERM.
// From then on these signals have their default effect again.
func notifyContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// parseArgs takes the command line apart: at most one command, and the flags
// that every binary understands. An empty name is the default command.
func parseArgs(args []string) (name string, help bool, err error) {
	for _, arg := range args {
		switch {
		case arg == "-h" || arg == "-help" || arg == "--help":
			help = true
		case arg == "--version" || arg == "-version":
			arg = "version"
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
	if len(p.Commands) == 0 {
		return Command{}, errors.New("this program has no commands")
	}
	if name == "" {
		return p.Commands[0], nil
	}
	names := make([]string, 0, len(p.Commands)+1)
	for _, c := range p.Commands {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	if name == "version" {
		return Command{Name: name}, nil // its --help is that of the program
	}
	names = append(names, "version")
	return Command{}, fmt.Errorf("unknown command %q, the commands are %s", name, strings.Join(names, ", "))
}

// report turns the end of a command into an exit status.
func (p Program) report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	return p.complain(stderr, err, exitError)
}

func (p Program) complain(stderr io.Writer, err error, status int) int {
	// When stderr is gone too, the exit status is all that is left to say.
	_, _ = fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	return status
}

// printHelp prints the commands and the table of variables.
func (p Program) printHelp(w io.Writer) error {
	var b strings.Builder
	b.WriteString(p.Name)
	if p.Summary != "" {
		b.WriteString(": " + p.Summary)
	}
	fmt.Fprintf(&b, "\n\nUsage: %s [command]\n\nCommands:\n", p.Name)

	width := len("version")
	for _, c := range p.Commands {
		width = max(width, len(c.Name))
	}
	for i, c := range p.Commands {
		help := c.Help
		if i == 0 {
			help += " (default)"
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, c.Name, help)
	}
	fmt.Fprintf(&b, "  %-*s  print the version\n", width, "version")
	if p.Config != nil {
		b.WriteString("\nEnvironment:\n")
		if err := config.Usage(&b, p.Config()); err != nil {
			return fmt.Errorf("print help: %w", err)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print help: %w", err)
	}
	return nil
}
