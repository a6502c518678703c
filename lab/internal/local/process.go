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
	"sync"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

const (
	// maxLine is the longest line that is handed on whole; a longer one comes in pieces.
	maxLine = 64 << 10
	// drainTime is how long the output of an ended process is still read: a
	// grandchild that inherited it must not hold the replica.
	drainTime = time.Second
)

// process is one life of a replica.
type process struct {
	guarded *guard.Process
	name    string
	started time.Time
	line    func(replica string, line []byte)
	noAPI   bool

	bound chan struct{} // closed when the addresses are known
	ended chan struct{} // closed when the process is gone and its output read
	err   error         // how it ended, never nil; to be read when ended is closed

	mu         sync.Mutex
	api, admin string
	lastPlain  string // the last line that is no JSON: what lifecycle.Main says at exit
	lastError  string // the last JSON line of level ERROR, made readable
}

// launch starts a process and the goroutines that read and await it.
func launch(spec Spec, name string) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the output of %s: %w", name, err)
	}
	guarded, err := guard.Start(guard.Spec{
		Path: spec.Path, Args: spec.Args, Env: spec.environ(), Output: w, Stop: syscall.SIGTERM, Grace: spec.StopTimeout,
	})
	// The process has its own copy of the writing end.
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), r.Close())
	}
	p := &process{
		guarded: guarded, name: name, started: time.Now(), line: spec.Line, noAPI: spec.NoAPI,
		bound: make(chan struct{}), ended: make(chan struct{}),
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.readLines(r)
	}()
	go p.await(r, read)
	return p, nil
}

func (p *process) await(output *os.File, read <-chan struct{}) {
	err := p.guarded.Err()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-read:
	case <-timer.C:
	}
	_ = output.Close() // ends readLines if it still reads; nothing was written
	<-read
	p.err = p.exitError(err)
	close(p.ended)
}

func (p *process) readLines(output io.Reader) {
	r := bufio.NewReaderSize(output, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			p.note(line)
			p.line(p.name, line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// logLine is what the package reads of a service's log.
type logLine struct {
	Level  string `json:"level"`
	Msg    string `json:"msg"`
	Server string `json:"server"`
	Addr   string `json:"addr"`
	Error  string `json:"error"`
	Err    string `json:"err"`
}

// note takes from a line what the set must know.
func (p *process) note(line []byte) {
	if line[0] != '{' {
		p.mu.Lock()
		p.lastPlain = string(line)
		p.mu.Unlock()
		return
	}
	// Under load there may be thousands of lines a second: only those that can matter are decoded.
	listening, failed := bytes.Contains(line, []byte(`"listening"`)), bytes.Contains(line, []byte(`"ERROR"`))
	if !listening && !failed {
		return
	}
	var l logLine
	if json.Unmarshal(line, &l) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.Level == "ERROR" {
		p.lastError = strings.Trim(l.Msg+": "+l.Error+l.Err, ": ")
	}
	if l.Msg != "listening" {
		return
	}
	known := p.known()
	switch l.Server {
	case "api":
		p.api = l.Addr
	case "admin":
		p.admin = l.Addr
	default: // a service may have more listeners
	}
	if !known && p.known() {
		close(p.bound)
	}
}

// known tells whether the addresses are. The caller holds p.mu.
func (p *process) known() bool { return p.admin != "" && (p.api != "" || p.noAPI) }

func (p *process) addrs() (api, admin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.api, p.admin
}

func (p *process) pid() int { return p.guarded.PID() }

// errExit0 is the end of a process that did not fail.
var errExit0 = errors.New("exit status 0")

// exitError tells how the process ended, with its last words.
func (p *process) exitError(err error) error {
	if err == nil {
		return errExit0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	words := p.lastPlain
	if words == "" {
		words = p.lastError
	}
	var exit *exec.ExitError
	if words == "" || (errors.As(err, &exit) && !exit.Exited()) {
		return err // a signal says it all
	}
	return fmt.Errorf("%w (%s)", err, words)
}

// signal sends sig; a process that is gone already is no error.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.guarded.Signal(sig); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// stop ends the process by SIGTERM, after patience or when now is closed by
// SIGKILL, and returns when it is gone.
func (p *process) stop(patience time.Duration, now <-chan struct{}) error {
	err := p.signal(syscall.SIGTERM)
	// A paused process would not see the signal.
	err = errors.Join(err, p.signal(syscall.SIGCONT))
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		if !errors.Is(p.err, errExit0) {
			return fmt.Errorf("%s did not stop as it should: %w", p.name, p.err)
		}
		return err
	case <-now:
		err = errors.Join(err, fmt.Errorf("%s was killed", p.name))
	case <-timer.C:
		err = errors.Join(err, fmt.Errorf("%s did not stop within %s and was killed", p.name, patience))
	}
	err = errors.Join(err, p.signal(syscall.SIGKILL))
	<-p.ended
	return err
}
