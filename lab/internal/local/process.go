package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

const (
	// maxLine is the length of the longest line that is passed on whole; a longer one comes in pieces.
	maxLine = 64 << 10
	// drainTime bounds reading the output of an ended process: a grandchild that inherited it may go on writing.
	drainTime = time.Second
	// stopTimeout is the time from SIGTERM to SIGKILL, more than the services' SHUTDOWN_TIMEOUT.
	stopTimeout = 25 * time.Second
)

// process is one process of a replica, from its start to its end.
type process struct {
	*guard.Process

	ended chan struct{} // closed when the process has ended and its output is read
	err   error         // how it ended, never nil; to be read when ended is closed
}

// launch starts a process and the goroutines that read and await it.
func (r *Replica) launch() (*process, error) {
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	spec := r.set.spec
	guarded, err := guard.Start(guard.Spec{
		Path: spec.Path, Args: []string{spec.Command}, Env: spec.environ(), Output: w, Grace: stopTimeout,
	})

	// The process has its own copy of the writing end.
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", r.name, err), out.Close())
	}
	p := &process{Process: guarded, ended: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		r.readLines(out)
	}()

	go func() {
		err := p.Err()
		select {
		case <-read:
		case <-time.After(drainTime):
		}
		_ = out.Close() // ends readLines
		<-read
		p.err = r.exitError(err)
		close(p.ended)
	}()
	return p, nil
}

func (r *Replica) readLines(output io.Reader) {
	lines := bufio.NewReaderSize(output, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > 0 {
			r.note(line)
			r.set.spec.Line(r.name, line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// note keeps what the set needs of a line.
func (r *Replica) note(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if line[0] != '{' {
		r.said = string(line)
		return
	}

	// Under load there are thousands of lines a second: only those that matter are decoded.
	if !bytes.Contains(line, []byte(`"listening"`)) && !bytes.Contains(line, []byte(`"ERROR"`)) {
		return
	}
	var l struct {
		Level  string `json:"level"`
		Msg    string `json:"msg"`
		Server string `json:"server"`
		Addr   string `json:"addr"`
		Error  string `json:"error"`
		Err    string `json:"err"`
	}
	if json.Unmarshal(line, &l) != nil {
		return
	}

	switch {
	case l.Level == "ERROR":
		r.said = strings.Trim(l.Msg+": "+l.Error+l.Err, ": ")
	case l.Msg == "listening" && l.Server == "api":
		r.status.API = l.Addr
	case l.Msg == "listening" && l.Server == "admin":
		r.status.Admin = l.Addr
	}
}

// errExit0 is how a process ends that did not fail.
var errExit0 = errors.New("exit status 0")

// exitError says how the process ended, with the last thing it said unless a signal ended it.
func (r *Replica) exitError(err error) error {
	if err == nil {
		return errExit0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if exit, is := errors.AsType[*exec.ExitError](err); r.said == "" || is && !exit.Exited() {
		return err
	}
	return fmt.Errorf("%w (%s)", err, r.said)
}

// stop ends a process by SIGTERM, by SIGKILL after stopTimeout or when the set says so, and returns when it has ended.
func (r *Replica) stop(p *process) error {
	// A paused process does not see SIGTERM before SIGCONT.
	err := errors.Join(p.Signal(syscall.SIGTERM), p.Signal(syscall.SIGCONT))
	select {
	case <-p.ended:
		if !errors.Is(p.err, errExit0) {
			return fmt.Errorf("%s did not stop in order: %w", r.name, p.err)
		}
		return err
	case <-r.set.now:
		err = errors.Join(err, fmt.Errorf("%s was killed", r.name))
	case <-time.After(stopTimeout):
		err = errors.Join(err, fmt.Errorf("%s did not stop within %s and was killed", r.name, stopTimeout))
	}
	err = errors.Join(err, p.Signal(syscall.SIGKILL))
	<-p.ended
	return err
}
