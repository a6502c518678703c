package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// mainVariable makes the test binary be rowlock.
const mainVariable = "ROWLOCK_TEST_AS_MAIN"

// patience is how long a command may take for what takes seconds here: a failover beside all other suites took over 90
// seconds on a machine of CI.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	if config.Environ()[mainVariable] != "" {
		main()
		return
	}
	os.Exit(dbtest.Main(m))
}

// rowlock is a running command.
type rowlock struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its output is read

	out waittest.Log
}

// start runs the command. The variables are set over the environment of the test; an empty value removes one.
func start(t *testing.T, variables map[string]string, args ...string) *rowlock {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := config.Environ()
	delete(env, "DATABASE_URL")
	maps.Copy(env, variables)
	env[mainVariable] = "1"
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })

	r := &rowlock{
		t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), self, args...), done: make(chan struct{}),
	}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = local.Variables(env), &r.out, &r.out
	r.cmd.WaitDelay = time.Second // of children that keep the output open
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // ProcessState has the status
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("rowlock %s said:\n%s", strings.Join(args, " "), r.output())
		}
		_ = r.cmd.Process.Kill() // fails when it has ended
		<-r.done
	})
	return r
}

func (r *rowlock) output() string {
	return r.out.String()
}

// await waits until the output holds text.
func (r *rowlock) await(text string) {
	r.t.Helper()
	r.until("the output holds "+strconv.Quote(text), func() bool { return strings.Contains(r.output(), text) })
}

func (r *rowlock) until(what string, cond func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		select {
		case <-r.done:
			if cond() {
				return
			}
			r.t.Fatalf("rowlock ended before: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("never so: %s", what)
		}
	}
}

func (r *rowlock) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// end waits for the end and returns the exit status, -1 after a signal.
func (r *rowlock) end() int {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("rowlock does not end")
	}
	return r.cmd.ProcessState.ExitCode()
}

// descendants returns the processes below pid with their names, such as "(postgres)", and states.
func descendants(t *testing.T, pid int) map[int]string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("no /proc here to see processes in")
	}
	parents, names := map[int]int{}, map[int]string{}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		child, parent, state := 0, 0, ""
		if _, err := fmt.Sscanf(string(stat[:begin])+string(stat[end+1:]), "%d %s %d", &child, &state, &parent); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		parents[child], names[child] = parent, string(stat[begin:end+1])+state
	}
	maps.DeleteFunc(names, func(child int, _ string) bool {
		for above := parents[child]; above != pid; above = parents[above] {
			if above == 0 {
				return true
			}
		}
		return false
	})
	return names
}

// allGone waits until none of the processes is left but as a zombie.
func allGone(t *testing.T, processes map[int]string) {
	t.Helper()
	waittest.Eventually(t, fmt.Sprintf("the end of %v", processes), func() bool {
		for pid := range processes {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil && !bytes.Contains(stat, []byte(") Z")) {
				return false
			}
		}
		return true
	})
}

// get reads a page and returns status, body and headers.
func get(t *testing.T, url string) (int, string, http.Header) {
	t.Helper()
	return call(t, http.MethodGet, url)
}

// call sends a request and returns status, body and headers.
func call(t *testing.T, method, url string) (int, string, http.Header) {
	t.Helper()
	status, answer, header, err := try(t.Context(), method, url)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer, header
}

func try(ctx context.Context, method, url string) (int, string, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return 0, "", nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), resp.Header, errors.Join(err, resp.Body.Close())
}

// shell runs a line as a person would paste it, and returns what it prints.
func shell(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(out)
}
