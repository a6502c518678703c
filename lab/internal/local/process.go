package local

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
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
	guarded *guard.Process
	name    string
	pid     int
	line    func(replica string, line []byte)

	ended chan struct{} // closed when the process has ended and its output is read
	err   error         // how it ended, never nil; to be read when ended is closed

	mu         sync.Mutex
	api, admin string
	lastPlain  string // the last line that is no JSON: what lifecycle.Main says at exit
	lastError  string // the last JSON line of level ERROR, as text
}

// launch starts a process and the goroutines that read and await it.
func launch(spec Spec, name string) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the output of %s: %w", name, err)
	}
	guarded, err := guard.Start(guard.Spec{
		Path: spec.Path, Args: []string{spec.Command}, Env: spec.environ(), Output: w, Grace: stopTimeout,
	})

	// The process has its own copy of the writing end.
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), r.Close())
	}
	p := &process{guarded: guarded, name: name, pid: guarded.PID(), line: spec.Line, ended: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.readLines(r)
	}()

	go func() {
		err := p.guarded.Err()
		select {
		case <-read:
		case <-time.After(drainTime):
		}
		_ = r.Close() // ends readLines
		<-read
		p.err = p.exitError(err)
		close(p.ended)
	}()
	return p, nil
}

func (p *process) readLines(output io.Reader) {
	r := bufio.NewReaderSize(output, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > 0 {
			p.note(line)
			p.line(p.name, line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// note keeps what the set needs of a line.
func (p *process) note(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line[0] != '{' {
		p.lastPlain = string(line)
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
		p.lastError = strings.Trim(l.Msg+": "+l.Error+l.Err, ": ")
	case l.Msg == "listening" && l.Server == "api":
		p.api = l.Addr
	case l.Msg == "listening" && l.Server == "admin":
		p.admin = l.Addr
	}
}

// addrs returns the addresses, empty until they are known.
func (p *process) addrs() (api, admin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.api, p.admin
}

// errExit0 is how a process ends that did not fail.
var errExit0 = errors.New("exit status 0")

// exitError says how the process ended, with the last thing it said unless a signal ended it.
func (p *process) exitError(err error) error {
	if err == nil {
		return errExit0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	said := cmp.Or(p.lastPlain, p.lastError)
	if exit, is := errors.AsType[*exec.ExitError](err); said == "" || is && !exit.Exited() {
		return err
	}
	return fmt.Errorf("%w (%s)", err, said)
}

// signal sends sig; that the process has ended already is no error.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.guarded.Signal(sig); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// stop ends the process by SIGTERM, by SIGKILL after stopTimeout or when now is closed, and returns when it has ended.
func (p *process) stop(now <-chan struct{}) error {
	// A paused process does not see SIGTERM before SIGCONT.
	err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT))
	select {
	case <-p.ended:
		if !errors.Is(p.err, errExit0) {
			return fmt.Errorf("%s did not stop in order: %w", p.name, p.err)
		}
		return err
	case <-now:
		err = errors.Join(err, fmt.Errorf("%s was killed", p.name))
	case <-time.After(stopTimeout):
		err = errors.Join(err, fmt.Errorf("%s did not stop within %s and was killed", p.name, stopTimeout))
	}
	err = errors.Join(err, p.signal(syscall.SIGKILL))
	<-p.ended
	return err
}
