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

// Program describes a binary to [Main].
type Program struct {
	// Name is the name of the binary, such as "counts".
	Name string
	// Summary says in one line what the binary is for; --help prints it.
	Summary string
	// Config returns a pointer to a new configuration struct; --help prints its variables.
	Config func() any
	// Commands are the commands of the binary besides version, at least one; the first is the default.
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

// Main runs the command that args name, or the first one if args are empty. It returns the exit status: 0, 1 if the
// command failed, 2 for a bad command line. It writes an error to stderr in one sentence. args exclude the program's
// name; environ is config.Environ().
func Main(p Program, args []string, environ map[string]string, stdout, stderr io.Writer) int {
	p.Commands = append(slices.Clip(p.Commands), Command{
		Name: "version", Help: "print the version",
		Run: func(context.Context, map[string]string) error { return printTo(stdout, p.version()) },
	})

	cmd, err := p.find(args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v; run %s --help\n", p.Name, err, p.Name)
		return exitUsage
	}
	if slices.ContainsFunc(args, asksForHelp) {
		cmd.Run = func(context.Context, map[string]string) error { return printTo(stdout, p.help()) }
	}

	// After the first signal these signals have their default effect again.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := cmd.Run(ctx, environ); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return exitError
	}
	return exitOK
}

func printTo(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func asksForHelp(arg string) bool {
	return strings.TrimLeft(arg, "-") == "help" || arg == "-h"
}

// find returns the command that args name, or the first one if args are empty or ask for help.
func (p Program) find(args []string) (Command, error) {
	if len(args) == 0 || slices.ContainsFunc(args, asksForHelp) {
		return p.Commands[0], nil
	}

	names := make([]string, len(p.Commands))
	for i, c := range p.Commands {
		names[i] = c.Name
	}

	// version is accepted as a flag too.
	name := args[0]
	if strings.TrimLeft(name, "-") == "version" {
		name = "version"
	}

	i := slices.Index(names, name)
	switch {
	case strings.HasPrefix(name, "-"):
		return Command{}, fmt.Errorf("unknown flag %q: settings are environment variables", name)
	case i < 0:
		return Command{}, fmt.Errorf("unknown command %q, the commands are %s", name, strings.Join(names, ", "))
	case len(args) > 1:
		return Command{}, fmt.Errorf("unexpected argument %q after %s", args[1], name)
	}

	return p.Commands[i], nil
}

// help returns the commands and the table of variables.
func (p Program) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s [command]\n\nCommands:\n", p.Name, p.Summary, p.Name)

	commands := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, c := range p.Commands {
		if i == 0 {
			c.Help += " (default)"
		}
		_, _ = fmt.Fprintf(commands, "  %s\t%s\n", c.Name, c.Help) // writes to a strings.Builder, which cannot fail
	}

	_ = commands.Flush() // as above
	b.WriteString("\nEnvironment:\n" + config.Usage(p.Config()))
	return b.String()
}
