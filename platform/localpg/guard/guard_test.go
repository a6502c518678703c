package guard_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg/guard"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// childVariable makes this binary the owner of a guarded program: it holds the folder that the
// guard is to remove.
const childVariable = "ROWLOCK_GUARD_CHILD"

func TestMain(m *testing.M) {
	if dir := config.Environ()[childVariable]; dir != "" {
		os.Exit(owner(dir))
	}
	goleak.VerifyTestMain(m)
}

// owner runs a program that is deaf to SIGTERM, prints its process id, and waits to be killed.
func owner(dir string) int {
	p, err := guard.Start(guard.Spec{
		Path: "/bin/sh", Args: []string{"-c", `trap "" TERM; while :; do sleep 1; done`}, Dir: "/",
		Env: []string{"PATH=/usr/bin:/bin"}, Grace: time.Second, Remove: dir,
	})
	if err == nil {
		_, err = fmt.Fprintln(os.Stdout, p.PID())
	}
	if err != nil {
		return 1
	}
	select {}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// The owner is killed with SIGKILL: the guard asks, waits its time, kills, and removes the folder.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "name with space")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !alive(pid) {
		t.Fatalf("the program %q does not run: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	waittest.Eventually(t, "the program ends", func() bool { return !alive(pid) })
	waittest.Eventually(t, "the folder is removed", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}
