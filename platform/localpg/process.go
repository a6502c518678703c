package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// alive says whether a process of this id exists, whoever owns it.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// postmasterPID returns the process id in the cluster's postmaster.pid; 0 when there is none.
func postmasterPID(data string) int {
	line, _, _ := strings.Cut(readFile(filepath.Join(data, "postmaster.pid")), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return pid
}

// postmasterReady says whether the server with this process id takes connections: line 8 of postmaster.pid, as pg_ctl reads it.
func postmasterReady(data string, pid int) bool {
	const statusLine = 7
	lines := strings.Split(readFile(filepath.Join(data, "postmaster.pid")), "\n")
	return len(lines) > statusLine &&
		strings.TrimSpace(lines[0]) == strconv.Itoa(pid) &&
		strings.TrimSpace(lines[statusLine]) == "ready"
}

// readFile returns the file's text; "" when it cannot be read, which for the files read here means the same as an empty one.
func readFile(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // files of the data folder and of /proc
	if err != nil {
		return ""
	}
	return string(text)
}

// serves says whether the process is a PostgreSQL server of this cluster: process ids are given out again, after a restart of the
// machine or of a container even quickly.
func serves(ctx context.Context, pid int, data string) bool {
	args := arguments(ctx, pid)
	return strings.Contains(args, "postgres") && strings.Contains(args, data)
}

// hasProc says whether the system shows its processes as Linux does. Where it does, nothing here needs ps, which minimal installations
// and images are without.
func hasProc() bool { return exists("/proc/self/stat") }

// arguments are the command line of a process, "" when there is none (any more).
func arguments(ctx context.Context, pid int) string {
	if hasProc() {
		return strings.ReplaceAll(readFile(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " ")
	}
	args, err := output(ctx, "ps", "-o", "args=", "-p", strconv.Itoa(pid))
	if err != nil {
		return ""
	}
	return args
}

// reapOrphan stops a server of this cluster that outlived its owner and its guard. The caller holds the lock of the folder, so the
// server is nobody's. It is stopped instead of adopted: its port, its settings and its version are those of another start, and it is
// no child of ours, whose end we would hear of.
func reapOrphan(ctx context.Context, o Options, data string) error {
	pid := postmasterPID(data)
	if !alive(pid) {
		return nil
	}
	if !serves(ctx, pid, data) {
		// The id belongs to somebody else now, but PostgreSQL only asks whether it lives and would refuse to start.
		if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the stale postmaster.pid: %w", err)
		}
		return nil
	}

	o.sayf("Stopping PostgreSQL (process %d), left over from a run that was killed", pid)
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, 15 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := syscall.Kill(pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the PostgreSQL server left over from a killed run (process %d): %w", pid, err)
		}
		for deadline := time.Now().Add(step.wait); time.Now().Before(deadline); {
			// Where nobody reaps orphans (a container without an init) a dead one keeps its id; then its arguments are empty.
			if !alive(pid) || !serves(ctx, pid, data) {
				return nil
			}
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the PostgreSQL server left over from a killed run (process %d) does not end", pid)
}

// children returns the ids of the process's children.
func children(ctx context.Context, parent int) ([]int, error) {
	if hasProc() {
		return childrenInProc(parent)
	}
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err == nil && ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// childrenInProc reads them from /proc/PID/stat: id, (name), state, parent's id; see proc_pid_stat(5).
func childrenInProc(parent int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, file := range files {
		stat := readFile(file) // "" when it has ended meanwhile
		var pid, ppid int
		var state string
		// The name is the process's own choice, parentheses and blanks included.
		if _, err := fmt.Sscan(stat[strings.LastIndex(stat, ")")+1:], &state, &ppid); err != nil || ppid != parent {
			continue
		}
		if _, err := fmt.Sscan(stat, &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
