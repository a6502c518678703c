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
	// firstPause and lastPause bound the pause before a dead replica is started
	// again; it doubles with every death that comes before steadyAfter.
	firstPause  = 100 * time.Millisecond
	lastPause   = 5 * time.Second
	steadyAfter = 10 * time.Second

	// startPoll and readyPoll are the pauses between two looks at /readyz, before
	// and after the replica is ready the first time.
	startPoll = 20 * time.Millisecond
	readyPoll = 100 * time.Millisecond
	// readyTimeout bounds one look.
	readyTimeout = 2 * time.Second
	// readyMisses is how many looks in a row must fail for a ready replica to be
	// taken for not ready. An answer other than 200 counts at once: it says so itself.
	readyMisses = 3
)

// Replica is one of a [Set]: a process, and after its death the next one.
type Replica struct {
	set  *Set
	name string

	mu      sync.Mutex
	process *process // nil while none runs
	leaving *process // was sent SIGTERM: whatever /readyz says, it takes no more requests
	ready   bool
	starts  int
	flips   int // times that a running process that was ready was not any more
}

// Name is the name of the replica, such as "counts-2".
func (r *Replica) Name() string { return r.name }

// Status returns what is known at the moment.
func (r *Replica) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := Status{Name: r.name, Ready: r.ready, Starts: r.starts, Flips: r.flips}
	if r.process != nil {
		st.PID = r.process.pid()
		st.API, st.Admin = r.process.addrs()
	}
	return st
}

// Kill ends the process with SIGKILL; the set starts it again.
func (r *Replica) Kill() error { return r.signal(syscall.SIGKILL) }

// Terminate takes the replica from the list and ends the process with SIGTERM;
// the set starts it again. It returns when the signal is sent.
func (r *Replica) Terminate() error {
	r.mu.Lock()
	r.leaving = r.process
	r.mu.Unlock()
	r.setReady(nil, false)
	return r.signal(syscall.SIGTERM)
}

// Pause stops the process with SIGSTOP; Resume lets it go on.
func (r *Replica) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (r *Replica) Resume() error { return r.signal(syscall.SIGCONT) }

var errNotRunning = errors.New("not running at the moment")

func (r *Replica) signal(sig syscall.Signal) error {
	p := r.current()
	if p == nil {
		return fmt.Errorf("%s: %w", r.name, errNotRunning)
	}
	return p.signal(sig)
}

func (r *Replica) current() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// supervise starts the replica again and again until life, that of the set, ends. How
// the first start went is sent to first; a first start that fails is the last.
func (r *Replica) supervise(life context.Context, first chan<- error) {
	wait := firstPause
	for {
		p, err := r.start(life)
		if err == nil {
			err = r.awaitReady(life, p)
		}
		if first != nil {
			first <- err
			if err != nil {
				_ = r.end(life, p) // the error of the start is the one that counts
				return
			}
			first = nil
		}
		if err == nil {
			r.set.spec.Notify(Event{Kind: Ready, Replica: r.name, PID: p.pid(), Starts: r.Status().Starts, After: time.Since(p.started)})
			r.watch(life, p)
		}
		err = errors.Join(err, r.end(life, p))
		if life.Err() != nil {
			return
		}
		event := Event{Kind: Ended, Replica: r.name, Starts: r.Status().Starts, Err: err}
		if p != nil {
			event.PID, event.After = p.pid(), time.Since(p.started)
		}
		if event.After >= steadyAfter {
			wait = firstPause
		}
		// Jitter, so that replicas that died together do not come back together.
		event.Pause = wait/2 + rand.N(wait)
		r.set.spec.Notify(event)
		if !pause(life, event.Pause) {
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
	if err != nil {
		return nil, err
	}
	r.process = p
	return p, nil
}

// end waits until the process is gone, killing it if need be, and returns how
// it ended. nil is allowed.
func (r *Replica) end(life context.Context, p *process) error {
	r.setReady(nil, false)
	if p == nil {
		return nil
	}
	select {
	case <-p.ended:
	default:
		if life.Err() == nil { // else Set.Stop ends it, in its own way
			_ = p.signal(syscall.SIGKILL)
		}
		<-p.ended
	}
	r.mu.Lock()
	r.process = nil
	r.mu.Unlock()
	return p.err
}

// awaitReady returns nil when the process is ready and listed.
func (r *Replica) awaitReady(life context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(life, r.set.spec.StartTimeout)
	defer cancel()
	select {
	case <-p.bound:
	case <-p.ended:
		return r.endedEarly(p)
	case <-ctx.Done():
		return r.notReady(ctx, errors.New("it has not said where it listens"))
	}
	ticker := time.NewTicker(startPoll)
	defer ticker.Stop()
	for {
		err := r.look(ctx, p)
		if err == nil {
			r.setReady(p, true)
			return nil
		}
		select {
		case <-ticker.C:
		case <-p.ended:
			return r.endedEarly(p)
		case <-ctx.Done():
			return r.notReady(ctx, err)
		}
	}
}

func (r *Replica) endedEarly(p *process) error {
	return fmt.Errorf("%s ended before it was ready: %w", r.name, p.err)
}

func (r *Replica) notReady(ctx context.Context, last error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", r.name, ctx.Err())
	}
	return fmt.Errorf("%s was not ready within %s: %w", r.name, r.set.spec.StartTimeout, last)
}

// watch follows the readiness of a process until it is gone or the set is stopped.
func (r *Replica) watch(life context.Context, p *process) {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	misses := 0
	for {
		select {
		case <-ticker.C:
		case <-p.ended:
			return
		case <-life.Done():
			return
		}
		err := r.look(life, p)
		var refused *notReadyError
		switch {
		case err == nil:
			misses = 0
			r.setReady(p, true)
		case errors.As(err, &refused):
			r.flip(p)
		default:
			if misses++; misses >= readyMisses {
				r.flip(p)
			}
		}
	}
}

// notReadyError is an answer of /readyz other than 200.
type notReadyError struct {
	status string
	body   string
}

func (e *notReadyError) Error() string { return "/readyz answered " + e.status + ": " + e.body }

// look asks /readyz once.
func (r *Replica) look(ctx context.Context, p *process) error {
	_, admin := p.addrs()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
	if err != nil {
		return fmt.Errorf("ask whether %s is ready: %w", r.name, err)
	}
	resp, err := r.set.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask whether %s is ready: %w", r.name, err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	err = errors.Join(err, resp.Body.Close())
	if err != nil {
		return fmt.Errorf("ask whether %s is ready: %w", r.name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return &notReadyError{status: resp.Status, body: string(body)}
	}
	return nil
}

// flip unlists a replica that runs, and counts it if it was ready.
func (r *Replica) flip(p *process) {
	r.mu.Lock()
	if r.ready && p == r.process {
		r.flips++
	}
	r.mu.Unlock()
	r.setReady(p, false)
}

// setReady lists or unlists the replica. A process that is no longer the
// current one cannot list it.
func (r *Replica) setReady(p *process, ready bool) {
	r.mu.Lock()
	ready = ready && p == r.process && p != r.leaving
	changed := r.ready != ready
	r.ready = ready
	r.mu.Unlock()
	if changed {
		r.set.list()
	}
}
