package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// firstPause and lastPause bound the pause before a replica that has ended is started again. It doubles while
	// processes end before steadyAfter.
	firstPause  = 100 * time.Millisecond
	lastPause   = 5 * time.Second
	steadyAfter = 10 * time.Second

	// startPoll and readyPoll are the intervals of asking /readyz, before and after the replica is ready the first time.
	startPoll = 20 * time.Millisecond
	readyPoll = 100 * time.Millisecond
	// readyTimeout bounds one question.
	readyTimeout = 2 * time.Second
	// startTimeout bounds the time from the start of a process, migrations included, until it is ready the first time.
	startTimeout = time.Minute
	// readyMisses is how many questions in a row stay without an answer until a ready replica counts as not ready. An
	// answer other than 200 counts at once.
	readyMisses = 3
)

// Replica is one replica of a [Set]: a process, and after its end the next one.
type Replica struct {
	set  *Set
	name string

	mu      sync.Mutex
	status  Status   // but for the name
	process *process // nil while none runs
	leaving bool     // the process was sent SIGTERM: it is not listed whatever /readyz says
	said    string   // the last line that is no JSON, such as lifecycle.Main's at exit, or the last one of level ERROR

	stopErr error // how the stop of the set went; to be read after its end
}

// Name returns the name of the replica, such as "counts-2".
func (r *Replica) Name() string { return r.name }

// Status returns what is known at the moment.
func (r *Replica) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.status
	status.Name = r.name
	return status
}

// Kill ends the process with SIGKILL; the set starts the replica again.
func (r *Replica) Kill() error { return r.signal(syscall.SIGKILL) }

// Terminate unlists the replica and sends SIGTERM to the process; the set starts the replica again.
func (r *Replica) Terminate() error {
	r.mu.Lock()
	r.leaving, r.status.Ready = true, false
	r.mu.Unlock()
	return r.signal(syscall.SIGTERM)
}

// Pause stops the process with SIGSTOP until [Replica.Resume].
func (r *Replica) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (r *Replica) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Replica) signal(sig syscall.Signal) error {
	r.mu.Lock()
	p := r.process
	r.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%s: not running at the moment", r.name)
	}
	return p.Signal(sig)
}

// supervise runs the replica again and again until life ends. The result of the first start is sent to
// first; when it failed it was the last one.
func (r *Replica) supervise(life context.Context, first chan<- error) {
	wait, starting := firstPause, true
	for {
		begin := time.Now()
		pid, err := r.run(life, func(pid int) {
			if starting {
				starting = false
				first <- nil
				return
			}
			r.set.spec.Say(fmt.Sprintf("%s is back (process %d)", r.name, pid))
		})

		if starting {
			first <- err
			return
		}
		if life.Err() != nil {
			return
		}

		took := time.Since(begin)
		if took >= steadyAfter {
			wait = firstPause
		}
		pause := wait/2 + rand.N(wait) // jitter, so that replicas that ended together do not start together
		r.set.spec.Say(fmt.Sprintf("%s (process %d) ended after %s: %v; starting it again in %s", r.name, pid,
			took.Round(time.Millisecond), err, pause.Round(time.Millisecond)))
		select {
		case <-time.After(pause):
		case <-life.Done():
			return
		}
		wait = min(2*wait, lastPause)
	}
}

// run runs one process to its end and calls ready when it takes requests. The error says how it ended, or why it was
// never ready.
func (r *Replica) run(life context.Context, ready func(pid int)) (pid int, err error) {
	p, err := r.launch()
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	r.process, r.leaving, r.status.PID = p, false, p.PID()
	r.status.Starts++
	r.mu.Unlock()

	err = r.follow(life, p, func() { ready(p.PID()) })
	if life.Err() != nil {
		r.stopErr = r.stop(p)
	} else {
		_ = p.Signal(syscall.SIGKILL) // no error when it has ended
		<-p.ended
	}
	r.mu.Lock()
	r.process, r.said, r.status = nil, "", Status{Starts: r.status.Starts, Flips: r.status.Flips}
	r.mu.Unlock()
	if err == nil {
		err = p.err
	}
	return p.PID(), err
}

// follow lists and unlists the replica by /readyz until the process or life ends, and calls ready the first
// time. The error says why it never was.
func (r *Replica) follow(life context.Context, p *process, ready func()) error {
	timeout := time.After(startTimeout)
	poll := time.NewTicker(startPoll)
	defer poll.Stop()
	was, misses := false, 0
	last := errors.New("it has not said where it listens")

	for {
		select {
		case <-poll.C:
		case <-p.ended:
			if was {
				return nil
			}
			return fmt.Errorf("%s ended before it was ready: %w", r.name, p.err)
		case <-life.Done():
			return fmt.Errorf("%s: %w", r.name, life.Err())
		case <-timeout:
			if !was {
				return fmt.Errorf("%s was not ready within %s: %w", r.name, startTimeout, last)
			}
		}
		status := r.Status()
		if status.Admin == "" || status.API == "" && r.set.spec.Command == serve {
			continue
		}
		answered, err := r.ask(life, status.Admin)
		switch {
		case err == nil:
			misses = 0
			r.list(true)
			if !was {
				was = true
				poll.Reset(readyPoll)
				ready()
			}
		case answered || misses+1 >= readyMisses:
			r.list(false)
		default:
			misses++
		}
		last = err
	}
}

// ask asks /readyz once. The error is nil when the replica is ready; answered reports whether it said so itself.
func (r *Replica) ask(ctx context.Context, admin string) (answered bool, err error) {
	status, text, err := get(ctx, r.set.client, admin, "/readyz")
	if err == nil && status != http.StatusOK {
		return true, fmt.Errorf("/readyz answered %d: %s", status, text)
	}
	return err == nil, err
}

// list lists or unlists the replica, unless it was terminated. One that becomes not ready while it runs has flipped.
func (r *Replica) list(ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Ready && !ready {
		r.status.Flips++
	}
	r.status.Ready = ready && !r.leaving
}

// Metric reads the sum of the series of a name at a replica's admin address. The name may include labels. An address
// without such a series is an error.
func Metric(ctx context.Context, admin, name string) (sum float64, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: readyTimeout}
	_, text, err := get(ctx, &client, admin, "/metrics")
	if err != nil {
		return 0, err
	}
	err = fmt.Errorf("/metrics of %s has no %s", admin, name)
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, failed := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if failed == nil {
			sum, err = sum+value, nil
		}
	}
	return sum, err
}

// get reads a page of a replica.
func get(ctx context.Context, client *http.Client, admin, path string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), errors.Join(err, resp.Body.Close())
}
