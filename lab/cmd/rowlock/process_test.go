package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// mainVariable makes the test binary be rowlock.
const mainVariable = "ROWLOCK_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if config.Environ()[mainVariable] != "" {
		main()
		return
	}
	os.Exit(dbtest.Main(m))
}

// rowlock is the command, running.
type rowlock struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its output is read

	mu  sync.Mutex
	out strings.Builder
}

// start runs the command; variables go over the environment of the test, an
// empty value takes one away.
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

	r := &rowlock{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), self, args...), done: make(chan struct{})}
	for name, value := range env {
		if value != "" {
			r.cmd.Env = append(r.cmd.Env, name+"="+value)
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Stdout, r.cmd.Stderr = write, write
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	go func() {
		defer close(r.done)
		lines := bufio.NewReader(read)
		for {
			line, err := lines.ReadString('\n')
			r.mu.Lock()
			r.out.WriteString(line)
			r.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = read.Close()
		_ = r.cmd.Wait()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("rowlock %s said:\n%s", strings.Join(args, " "), r.output())
		}
		_ = r.cmd.Process.Kill()
		<-r.done
	})
	return r
}

func (r *rowlock) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// await waits until the output holds text.
func (r *rowlock) await(text string) {
	r.t.Helper()
	r.until("the output holds "+strconv.Quote(text), func() bool { return strings.Contains(r.output(), text) })
}

func (r *rowlock) until(what string, cond func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
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
	case <-time.After(90 * time.Second):
		r.t.Fatal("rowlock does not end")
	}
	return r.cmd.ProcessState.ExitCode()
}

// descendants are the processes below pid, itself not included, each with its command line.
func descendants(t *testing.T, pid int) map[int]string {
	t.Helper()
	children := map[int][]int{}
	names := map[int]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("no /proc here to see processes in")
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		text := string(stat)
		var parent int
		var state string
		if _, err := fmt.Sscanf(text[strings.LastIndex(text, ")")+1:], " %s %d", &state, &parent); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		children[parent] = append(children[parent], child)
		names[child] = text[strings.Index(text, "("):strings.LastIndex(text, ")")+1] + state
	}
	below := map[int]string{}
	var add func(int)
	add = func(p int) {
		for _, c := range children[p] {
			below[c] = names[c]
			add(c)
		}
	}
	add(pid)
	return below
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	text := string(stat)
	return !strings.HasPrefix(text[strings.LastIndex(text, ")"):], ") Z")
}

// allGone waits until none of the processes is left.
func allGone(t *testing.T, processes map[int]string, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		left := maps.Clone(processes)
		maps.DeleteFunc(left, func(pid int, _ string) bool { return !alive(pid) })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// call sends a request and returns status and body.
func call(t *testing.T, method, url, body string) (int, string, http.Header) {
	t.Helper()
	status, answer, header, err := try(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer, header
}

func try(ctx context.Context, method, url, body string) (int, string, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
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

// shell runs a line as it would be pasted and returns what it prints.
func shell(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(out)
}

// sorted are the process ids of a map, for messages and loops in order.
func sorted(m map[int]string) []int { return slices.Sorted(maps.Keys(m)) }
