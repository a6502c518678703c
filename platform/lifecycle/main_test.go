package lifecycle_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// childEnv makes the test binary a service, for the tests that send signals.
const childEnv = "ROWLOCK_LIFECYCLE_CHILD"

func TestMain(m *testing.M) {
	if config.Environ()[childEnv] != "" {
		os.Exit(lifecycle.Main(child(), nil, nil, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// child returns a service that prints when it is up and when it drains, which takes until the deadline.
func child() lifecycle.Program {
	serve := func(ctx context.Context, _ map[string]string) error {
		say := func(line string) error { _, err := fmt.Fprintln(os.Stdout, line); return err }
		return lifecycle.Run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)), time.Minute, lifecycle.Part{
			Name:  "api",
			Start: func(context.Context) error { return say("up") },
			Stop:  func(ctx context.Context) error { err := say("draining"); <-ctx.Done(); return err },
		})
	}
	return lifecycle.Program{Name: "child", Commands: []lifecycle.Command{{Name: "serve", Run: serve}}}
}

// The first signal begins the orderly end, which the log explains; the second kills.
func TestASecondSignalKills(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(cmd.Environ(), childEnv+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for _, want := range []string{"up", "draining"} { // would drain for a minute
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the child said %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	// The first signal may still be on its way out of the handler when the child drains.
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	waittest.Eventually(t, "the child is gone", func() bool {
		_ = cmd.Process.Signal(syscall.SIGINT) // fails once the child is gone, which is the aim
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 { // -1: by a signal
		t.Errorf("the child ended with %v, want death by a signal\n%s", err, &stderr)
	}
	if !strings.Contains(stderr.String(), `reason="terminated signal received"`) {
		t.Errorf("the log does not name the signal:\n%s", &stderr)
	}
}

type settings struct {
	config.Common
}

// program returns a program whose commands record their calls.
func program(calls *[]string) lifecycle.Program {
	note := func(name string, err error) func(context.Context, map[string]string) error {
		return func(_ context.Context, environ map[string]string) error {
			*calls = append(*calls, name+" "+environ["X"])
			return err
		}
	}
	return lifecycle.Program{
		Name:    "counts",
		Summary: "counts things",
		Config:  func() any { return &settings{} },
		Commands: []lifecycle.Command{
			{Name: "serve", Help: "answer requests", Run: note("serve", nil)},
			{Name: "migrate", Help: "apply migrations and end", Run: note("migrate", errBoom)},
		},
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	version := "counts " + lifecycle.Version() + " ("
	const unknown = "counts: unknown command \"run\", the commands are serve, migrate, versionHELP\n"
	const commands = "  serve    answer requests (default)\n  migrate  apply migrations and end\n" +
		"  version  print the version\n"
	const flag = "counts: unknown flag \"--port=1\": settings are environment variablesHELP\n"
	const unexpected = "counts: unexpected argument %q after %sHELP\n"
	for name, tt := range map[string]struct {
		args   []string
		status int
		calls  string
		stdout string // how it begins
		stderr string // all of it; HELP stands for the hint
	}{
		"default":          {nil, 0, "serve 1", "", ""},
		"by name":          {[]string{"serve"}, 0, "serve 1", "", ""},
		"failure":          {[]string{"migrate"}, 1, "migrate 1", "", "counts: boom\n"},
		"version":          {[]string{"version"}, 0, "", version, ""},
		"--version":        {[]string{"--version"}, 0, "", version, ""},
		"--help":           {[]string{"--help"}, 0, "", "counts: counts things\n\nUsage: counts [command]\n", ""},
		"-h":               {[]string{"-h"}, 0, "", "counts: counts things\n", ""},
		"help":             {[]string{"help"}, 0, "", "counts: counts things\n", ""},
		"help of one":      {[]string{"migrate", "--help"}, 0, "", "counts: counts things\n", ""},
		"unknown":          {[]string{"run"}, 2, "", "", unknown},
		"flag":             {[]string{"--port=1"}, 2, "", "", flag},
		"two":              {[]string{"serve", "migrate"}, 2, "", "", fmt.Sprintf(unexpected, "migrate", "serve")},
		"version and more": {[]string{"version", "all"}, 2, "", "", fmt.Sprintf(unexpected, "all", "version")},
	} {
		var calls []string
		var stdout, stderr bytes.Buffer
		status := lifecycle.Main(program(&calls), tt.args, map[string]string{"X": "1"}, &stdout, &stderr)
		if status != tt.status || strings.Join(calls, ",") != tt.calls {
			t.Errorf("%s: status %d, calls %q, want %d and %q", name, status, calls, tt.status, tt.calls)
		}
		if !strings.HasPrefix(stdout.String(), tt.stdout) || (tt.stdout == "") != (stdout.Len() == 0) {
			t.Errorf("%s: stdout %q, want it to begin with %q", name, &stdout, tt.stdout)
		}
		if help := stdout.String(); strings.HasPrefix(name, "help") && (!strings.Contains(help, commands) ||
			!strings.Contains(help, "\nEnvironment:\n  DATABASE_URL ")) {
			t.Errorf("%s: the help lacks commands or variables:\n%s", name, help)
		}
		if want := strings.ReplaceAll(tt.stderr, "HELP", "; run counts --help"); stderr.String() != want {
			t.Errorf("%s: stderr %q, want %q", name, &stderr, want)
		}
	}
}
