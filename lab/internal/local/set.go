package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	if n < 1 {
		return nil, fmt.Errorf("%d replicas of %s: at least 1 is needed", n, spec.Service)
	}
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
	list := make([]Status, 0, len(s.replicas))
	for _, r := range s.replicas {
		if st := r.Status(); st.Ready && st.API != "" {
			list = append(list, st)
		}
	}
	return list
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
