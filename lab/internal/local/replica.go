package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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
	// readyMisses is how many questions in a row stay without an answer until a ready replica counts as not ready. An
	// answer other than 200 counts at once.
	readyMisses = 3
)

// Replica is one replica of a [Set]: a process, and after its end the next one.
type Replica struct {
	set  *Set
	name string

	mu      sync.Mutex
	process *process // nil while none runs
	leaving *process // was sent SIGTERM: it is not listed whatever /readyz says
	ready   bool
	starts  int
	flips   int
}

// Name returns the name of the replica, such as "counts-2".
func (r *Replica) Name() string { return r.name }

// Status returns what is known at the moment.
func (r *Replica) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := Status{Name: r.name, Ready: r.ready, Starts: r.starts, Flips: r.flips}
	if r.process != nil {
		st.PID = r.process.guarded.PID()
		st.API, st.Admin, _ = r.process.addrs()
	}
	return st
}

// Kill ends the process with SIGKILL; the set starts the replica again.
func (r *Replica) Kill() error { return r.signal(syscall.SIGKILL) }

// Terminate unlists the replica and sends SIGTERM to the process; the set starts the replica again.
func (r *Replica) Terminate() error {
	r.mu.Lock()
	r.leaving = r.process
	r.mu.Unlock()
	r.setReady(nil, false)
	return r.signal(syscall.SIGTERM)
}

// Pause stops the process with SIGSTOP until [Replica.Resume].
func (r *Replica) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (r *Replica) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Replica) signal(sig syscall.Signal) error {
	if p := r.current(); p != nil {
		return p.signal(sig)
	}
	return fmt.Errorf("%s: not running at the moment", r.name)
}

func (r *Replica) current() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// supervise starts the replica again and again until the set's life ends. The result of the first start is sent to
// first; when it failed it was the last one.
func (r *Replica) supervise(life context.Context, first chan<- error) {
	wait := firstPause
	for {
		p, err := r.start(life)
		if err == nil {
			err = r.follow(life, p, func() {
				if first != nil {
					first <- nil
					first = nil
				}
				r.set.spec.Notify(Event{
					Kind: Ready, Replica: r.name, PID: p.guarded.PID(), Starts: r.Status().Starts, After: time.Since(p.started),
				})
			})
		}
		event := Event{Kind: Ended, Replica: r.name, Starts: r.Status().Starts, Err: errors.Join(err, r.end(life, p))}
		if first != nil {
			first <- err
			return
		}
		if life.Err() != nil {
			return
		}
		if p != nil {
			event.PID, event.After = p.guarded.PID(), time.Since(p.started)
		}
		if event.After >= steadyAfter {
			wait = firstPause
		}
		event.Pause = wait/2 + rand.N(wait) // jitter, so that replicas that ended together do not start together
		r.set.spec.Notify(event)
		select {
		case <-time.After(event.Pause):
		case <-life.Done():
			return
		}
		wait = min(2*wait, lastPause)
	}
}

// start launches the process, unless the set is stopped.
func (r *Replica) start(life context.Context) (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := life.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	r.starts++
	p, err := launch(r.set.spec, r.name) //nolint:contextcheck // a process ends by a signal, not with a context
	if err == nil {
		r.process = p
	}
	return p, err
}

// end waits until the process has ended, after killing it unless the set's Stop ends it, and returns how it ended. nil
// is allowed.
func (r *Replica) end(life context.Context, p *process) error {
	r.setReady(nil, false)
	if p == nil {
		return nil
	}
	if life.Err() == nil {
		_ = p.signal(syscall.SIGKILL) // no error when it has ended
	}
	<-p.ended
	r.mu.Lock()
	r.process = nil
	r.mu.Unlock()
	return p.err
}

// follow lists and unlists the replica by /readyz until the process or life ends, and calls up when it is ready the
// first time. The error says why it never was.
func (r *Replica) follow(life context.Context, p *process, up func()) error {
	timeout := time.After(r.set.spec.StartTimeout)
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
				return fmt.Errorf("%s was not ready within %s: %w", r.name, r.set.spec.StartTimeout, last)
			}
		}
		_, admin, known := p.addrs()
		if !known {
			continue
		}
		answered, err := r.ask(life, admin)
		switch {
		case err == nil:
			misses = 0
			r.setReady(p, true)
			if !was {
				was = true
				poll.Reset(readyPoll)
				up()
			}
		case answered || misses+1 >= readyMisses:
			r.setReady(p, false)
		default:
			misses++
		}
		last = err
	}
}

// ask asks /readyz once. The error is nil when the replica is ready; answered reports whether it said so itself.
func (r *Replica) ask(ctx context.Context, admin string) (answered bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
	if err != nil {
		return false, fmt.Errorf("ask whether %s is ready: %w", r.name, err)
	}
	resp, err := r.set.client.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask whether %s is ready: %w", r.name, err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return false, fmt.Errorf("ask whether %s is ready: %w", r.name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return true, fmt.Errorf("/readyz answered %s: %s", resp.Status, body)
	}
	return true, nil
}

// setReady lists or unlists the replica. Only its current process can list it. A process that runs and becomes not
// ready counts as a flip; p is nil when the process ends.
func (r *Replica) setReady(p *process, ready bool) {
	r.mu.Lock()
	ready = ready && p == r.process && p != r.leaving
	changed := r.ready != ready
	if changed && !ready && p != nil && p == r.process {
		r.flips++
	}
	r.ready = ready
	r.mu.Unlock()
	if changed {
		r.set.list()
	}
}
