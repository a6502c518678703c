package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// Set runs the replicas of one service.
type Set struct {
	spec     Spec
	replicas []*Replica
	client   *http.Client // asks /readyz

	end  context.CancelFunc // ends the life of the set, after which no process is started again
	now  chan struct{}      // closed when processes that have not ended yet are to be killed
	kill func()             // closes now
	wg   sync.WaitGroup     // the supervisors
}

// Start starts n replicas at once and returns when all are ready. When one of them ends or is not ready within a
// minute, or ctx ends, all are killed, and the error says which one it was and what it said last. Later ctx has no
// effect on the set; [Set.Stop] ends it.
func Start(ctx context.Context, spec Spec, n int) (*Set, error) {
	s := &Set{
		spec:   spec.withDefaults(),
		client: &http.Client{Transport: &http.Transport{}, Timeout: readyTimeout},
		now:    make(chan struct{}),
	}

	s.kill = sync.OnceFunc(func() { close(s.now) })
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end
	first := make(chan error, n)
	for i := range n {
		r := &Replica{set: s, name: fmt.Sprintf("%s-%d", spec.Service, i+1)}
		s.replicas = append(s.replicas, r)
		s.wg.Go(func() { r.supervise(life, first) })
	}

	for range n {
		var err error
		select {
		case err = <-first:
		case <-ctx.Done():
			err = fmt.Errorf("start of %s: %w", spec.Service, context.Cause(ctx))
		}
		if err != nil {
			s.kill()
			_ = s.Stop(ctx) // reports that they were killed
			return nil, err
		}
	}
	return s, nil
}

// Replicas returns the replicas, ready or not, in the order of their names.
func (s *Set) Replicas() []*Replica { return s.replicas }

// Ready returns the replicas with an API that take requests.
func (s *Set) Ready() []Status {
	return slices.DeleteFunc(s.Statuses(), func(one Status) bool { return !one.Ready || one.API == "" })
}

// Statuses returns what is known of the replicas at the moment, in the order of their names.
func (s *Set) Statuses() (all []Status) {
	for _, r := range s.replicas {
		all = append(all, r.Status())
	}
	return all
}

// Stop ends all replicas at once by SIGTERM and returns when they have ended. One that does not end within 25 s, more
// than the services' SHUTDOWN_TIMEOUT, is killed; when ctx ends, all are. The error names those that were killed or
// failed.
func (s *Set) Stop(ctx context.Context) error {
	unused := context.AfterFunc(ctx, s.kill)
	defer unused()
	s.end()
	s.wg.Wait()
	s.client.CloseIdleConnections()
	errs := make([]error, len(s.replicas))
	for i, r := range s.replicas {
		errs[i] = r.stopErr
	}
	return errors.Join(errs...)
}

// Spec says what a [Set] runs.
type Spec struct {
	// Service names the replicas: counts-1, counts-2, ...
	Service string
	// Path is the binary, see [Binary].
	Path string
	// Command is its argument; empty means "serve", the only one with an API.
	Command string
	// Environ is the whole environment of the processes. HTTP_ADDR, ADMIN_ADDR, LOG_FORMAT and, unless it is debug,
	// LOG_LEVEL are overwritten: the addresses are read from the log.
	Environ map[string]string
	// Line is called with each line that a replica writes to its standard output or error, without the line break. The
	// bytes are valid during the call only. Calls for one replica come one after the other. Nil drops the lines.
	Line func(replica string, line []byte)
	// Say is called with a sentence when a replica has ended unexpectedly and when it is back. Nil drops them.
	Say func(sentence string)
}

// Prefixed returns a function for [Spec.Line] that copies lines to w, each after the name of its replica.
func Prefixed(w io.Writer) func(replica string, line []byte) {
	var mu sync.Mutex
	return func(replica string, line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = w.Write(
			slices.Concat([]byte(replica), []byte(" | "), line, []byte{'\n'})) // the replicas go on without a reader
	}
}

func (s Spec) withDefaults() Spec {
	s.Command = cmp.Or(s.Command, serve)
	if s.Line == nil {
		s.Line = func(string, []byte) {}
	}
	if s.Say == nil {
		s.Say = func(string) {}
	}
	return s
}

// serve is the command whose processes serve an API.
const serve = "serve"

// environ returns the environment of a process as "KEY=value".
func (s Spec) environ() []string {
	env := map[string]string{}
	maps.Copy(env, s.Environ)
	env["HTTP_ADDR"], env["ADMIN_ADDR"], env["LOG_FORMAT"] = "127.0.0.1:0", "127.0.0.1:0", "json"
	if env["LOG_LEVEL"] != "debug" {
		env["LOG_LEVEL"] = "info"
	}
	return Variables(env)
}

// Variables returns an environment as os/exec takes it, in the order of its names.
func Variables(environ map[string]string) []string {
	list := make([]string, 0, len(environ))
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		list = append(list, name+"="+environ[name])
	}
	return list
}

// Status describes a replica at one moment.
type Status struct {
	Name string
	// PID is the id of the running process; 0 while there is none.
	PID int
	// API and Admin are the addresses that it listens on; empty until they are known.
	API, Admin string
	// Ready reports whether it takes requests.
	Ready bool
	// Starts counts how often it was started.
	Starts int
	// Flips counts how often it became not ready while its process ran. A replica that is terminated does not count.
	Flips int
}
