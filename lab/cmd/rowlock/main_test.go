package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/localpg"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args   []string
		status int
		want   []string
	}{
		{args: nil, want: []string{"Usage:", "mutation-test", "with-postgres"}},
		{args: []string{"--help"}, want: []string{"Usage:"}},
		{args: []string{"up", "--help"}, want: []string{"--replicas", "--data", "--service", "DATABASE_URL"}},
		{args: []string{"with-postgres", "--help"}, want: []string{"ROWLOCK_TEST_DATABASE_URL", "Usage:"}},
		{args: []string{"bites", "--help"}, want: []string{"rowlock mutation-test"}},
		{args: []string{"bench", "iidy", "--help"}, want: []string{"--runs int", "(default 3)"}},
		{args: []string{"version"}, want: []string{"rowlock "}},
		{
			args: []string{"dance"}, status: exitUsage,
			want: []string{`unknown command "dance"; the commands are bench, check,`},
		},
		{args: []string{"with-postgres"}, status: exitUsage, want: []string{"needs a command"}},
		{args: []string{"with-postgres", "--"}, status: exitUsage, want: []string{"needs a command"}},
		{args: []string{"with-postgres", "--", ""}, status: exitUsage, want: []string{"needs a command"}},
		{
			args: []string{"with-postgres", "--", "no-such-program"}, status: exitError,
			want: []string{`cannot run "no-such-program"`},
		},
	} {
		r := start(t, nil, tt.args...)
		if status := r.end(); status != tt.status {
			t.Errorf("%v: status %d, want %d", tt.args, status, tt.status)
		}
		for _, want := range tt.want {
			if !strings.Contains(r.output(), want) {
				t.Errorf("%v: said %s, want it to contain %s", tt.args, r.output(), want)
			}
		}
	}
}

// refused runs a wrong command line, and looks for the reason in what it prints.
func refused(t *testing.T, line, want string) {
	t.Helper()
	var said strings.Builder
	p := process{stdin: strings.NewReader(""), stdout: &said, stderr: &said}
	if status := run(t.Context(), p, strings.Fields(line)); status != exitUsage || !strings.Contains(said.String(), want) {
		t.Errorf("rowlock %s: status %d, want %d; said %q, want it to contain %s", line, status, exitUsage, said.String(),
			want)
	}
}

func TestWithPostgres(t *testing.T) {
	t.Parallel()
	none := map[string]string{dbtest.URLVariable: ""}
	t.Run("the command has a server, and its status is passed on", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "url")
		r := start(t, none, "with-postgres", "--", "sh", "-c",
			`printf %s "$ROWLOCK_TEST_DATABASE_URL" >"$0"; while [ -f "$0" ]; do sleep 0.05; done; exit 7`, file)
		var url []byte
		r.until("the command has an address", func() bool {
			url, _ = os.ReadFile(file)
			return len(url) > 0
		})
		var one int
		if err := dial(t, string(url)).QueryRowContext(t.Context(), `SELECT 1`).Scan(&one); err != nil {
			t.Fatal(err)
		}
		below := descendants(t, r.cmd.Process.Pid)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if status := r.end(); status != 7 {
			t.Errorf("exit status %d, want 7", status)
		}
		allGone(t, below)
	})
	t.Run("SIGTERM is passed on and everything ends", func(t *testing.T) {
		t.Parallel()
		r := start(t, none, "with-postgres", "sh", "-c",
			`trap 'echo terminated; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
		r.await("ready")
		below := descendants(t, r.cmd.Process.Pid)
		r.signal(syscall.SIGTERM)
		if status := r.end(); status != 3 || !strings.Contains(r.output(), "terminated") {
			t.Errorf("exit status %d, want 3; said %s", status, r.output())
		}
		allGone(t, below)
	})
	t.Run("the second signal kills the command", func(t *testing.T) {
		t.Parallel()
		r := start(t, none, "with-postgres", "sh", "-c", `trap 'echo no' TERM; echo ready; while :; do sleep 0.05; done`)
		r.await("ready")
		r.signal(syscall.SIGTERM)
		r.await("no\n")
		r.signal(syscall.SIGTERM)
		if status := r.end(); status != signalBase+int(syscall.SIGKILL) {
			t.Errorf("exit status %d", status)
		}
	})
	t.Run("a server that is named is used", func(t *testing.T) {
		t.Parallel()
		r := start(t, map[string]string{dbtest.URLVariable: "postgres://there/"}, "with-postgres",
			"sh", "-c", `echo "url=$ROWLOCK_TEST_DATABASE_URL"`)
		if status := r.end(); status != 0 || r.output() != "url=postgres://there/\n" {
			t.Errorf("status %d: %s", status, r.output())
		}
	})
}

// dirPattern matches the data folder in the line that starts a server again.
var dirPattern = regexp.MustCompile(`(/\S*rowlock-test-[^/\s]+)/data`)

func psql(t *testing.T) string {
	t.Helper()
	bin, err := localpg.Find(t.Context(), config.Environ())
	if err != nil {
		t.Skipf("no PostgreSQL is installed here, and a fetched one has no psql: %v", err)
	}
	return filepath.Join(bin, "psql")
}

// A failed test run keeps its databases, and with them the server.
func TestWithPostgresKeepsWhatFailedTestsLeft(t *testing.T) {
	t.Parallel()
	r := start(t, map[string]string{dbtest.URLVariable: ""}, "with-postgres", "sh", "-c",
		psql(t)+` "$ROWLOCK_TEST_DATABASE_URL" -c 'CREATE DATABASE rowlock_test_left' && exit 1`)
	if status := r.end(); status != 1 {
		t.Fatalf("exit status %d", status)
	}
	r.await("1 database(s) of failed tests kept for a day")
	dir := dirPattern.FindStringSubmatch(r.output())
	if dir == nil {
		t.Fatalf("no folder in %s", r.output())
	}
	if _, err := os.Stat(dir[1]); err != nil {
		t.Errorf("the folder is gone: %v", err)
	}
	if err := os.RemoveAll(dir[1]); err != nil {
		t.Error(err)
	}
}
