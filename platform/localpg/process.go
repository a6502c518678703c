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

// alive reports whether a process with this id exists, of any user.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// postmasterPID returns the process id in the cluster's postmaster.pid; 0 when there is none.
func postmasterPID(data string) int { return readNumber(filepath.Join(data, "postmaster.pid")) }

// postmasterReady reports whether the server with this process id takes connections, by line 8 of
// postmaster.pid, as pg_ctl does.
func postmasterReady(data string, pid int) bool {
	const statusLine = 7
	file := filepath.Join(data, "postmaster.pid")
	lines := strings.Split(readFile(file), "\n")
	return len(lines) > statusLine && readNumber(file) == pid && strings.TrimSpace(lines[statusLine]) == "ready"
}

// readFile returns a file's text, or "" when it cannot be read, which callers treat like an empty
// file.
func readFile(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // files of the data folder and of /proc
	if err != nil {
		return ""
	}
	return string(text)
}

// serves reports whether the process is a PostgreSQL server of this cluster. The id alone proves
// nothing: the system reuses process ids, after a restart of the machine or a container even soon.
func serves(ctx context.Context, pid int, data string) bool {
	args := arguments(ctx, pid)
	return strings.Contains(args, "postgres") && strings.Contains(args, data)
}

// hasProc reports whether the system has /proc as on Linux. Then ps, which minimal images lack, is
// not needed.
func hasProc() bool { return exists("/proc/self/stat") }

// arguments returns the command line of a process, or "" when the process does not exist.
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

// reapOrphan stops a server of this cluster that outlived its owner and its guard. The caller holds
// the folder's lock, so the server has no owner. It is not reused: its port, settings and version
// are those of another start, and it is not our child, whose end we could wait for.
func reapOrphan(ctx context.Context, o Options, data string) error {
	pid := postmasterPID(data)
	if !alive(pid) {
		return nil
	}
	if !serves(ctx, pid, data) {
		// The id belongs to another process now, but PostgreSQL checks only that it exists and
		// would refuse to start.
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
			return fmt.Errorf("stop the PostgreSQL server left over from a killed run (process %d): %w",
				pid, err)
		}
		for deadline := time.Now().Add(step.wait); time.Now().Before(deadline); {
			// In a container without an init a dead orphan keeps its id; then its arguments are
			// empty.
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

// children returns the process ids of a process's children.
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

// childrenInProc reads the children from /proc/PID/stat: id, (name), state, parent's id; see
// proc_pid_stat(5).
func childrenInProc(parent int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, file := range files {
		stat := readFile(file) // "" when the process has ended
		var pid, ppid int
		var state string
		// The name may contain parentheses and blanks.
		if _, err := fmt.Sscan(stat[strings.LastIndex(stat, ")")+1:], &state, &ppid); err != nil || ppid != parent {
			continue
		}
		if _, err := fmt.Sscan(stat, &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
