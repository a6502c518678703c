package localpg

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// childVariable names the folder of the server that a process of this binary, started by a
// test, runs until it is killed.
const childVariable = "ROWLOCK_LOCALPG_CHILD"

func TestMain(m *testing.M) {
	if dir := config.Environ()[childVariable]; dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child starts a server, says so, and waits to be killed.
func child(dir string) int {
	s, err := Start(context.Background(), Options{Dir: dir, Settings: quick()})
	if err == nil {
		_, err = os.Stdout.WriteString(s.URL("postgres") + "\n")
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	select {}
}

// owner starts a child process with a server in dir and returns it with the server's URL.
func owner(t *testing.T, dir string) (cmd *exec.Cmd, url string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the child's server does not start: %v: %s", err, &stderr)
	}
	return cmd, strings.TrimSpace(line)
}

// kill ends a process that owner started, as the kernel does.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
}

// quick are settings for servers that no test cuts the power of.
func quick() map[string]string { return map[string]string{"fsync": "off", "full_page_writes": "off"} }

// folder is a new folder that root's server can enter, which t.TempDir is not.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localpg-test-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start starts a server that stops with the test, and returns what it said meanwhile.
func start(t *testing.T, o Options) (s *Server, progress string) {
	t.Helper()
	var said strings.Builder
	o.Settings, o.Progress = quick(), &said
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s, said.String()
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// session runs f on a new session.
func session(t *testing.T, url string, f func(conn *sql.Conn) error) error {
	t.Helper()
	connector, err := pq.NewConnector(url)
	if err != nil {
		t.Fatal(err)
	}
	return OnSession(t.Context(), connector, f)
}

func write(t *testing.T, url, statement string) {
	t.Helper()
	err := session(t, url, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(t.Context(), statement)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, url, query string) (answer string) {
	t.Helper()
	err := session(t, url, func(conn *sql.Conn) error { return conn.QueryRowContext(t.Context(), query).Scan(&answer) })
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// guardOf finds the guard that the process pid has started.
func guardOf(t *testing.T, pid int) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "args=").Output()
	if err != nil {
		t.Skipf("ps: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if guard, err := strconv.Atoi(words[0]); err == nil && words[1] == strconv.Itoa(pid) && words[2] == "/bin/sh" {
			return guard
		}
	}
	t.Fatalf("process %d has no guard", pid)
	return 0
}

func wantSentence(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want %q in it", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error in several lines: %q", err)
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	waittest.Eventually(t, dir+" is empty", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		return err == nil && len(left) == 0
	})
}
