package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
)

// Set runs the replicas of one service.
type Set struct {
	spec     Spec
	replicas []*Replica
	client   *http.Client

	backends atomic.Pointer[[]Backend] // an immutable list, replaced whole
	listing  sync.Mutex                // held while the list is replaced

	stopOnce sync.Once
	end      context.CancelFunc // ends the life of the set
	wg       sync.WaitGroup     // the supervisors
}

// Start starts n replicas at once and returns when all are ready. When one of them ends or is not ready within
// Spec.StartTimeout, or ctx ends, all are killed, and the error says which one it was and what it said last. Later ctx
// has no effect on the set; [Set.Stop] ends it.
func Start(ctx context.Context, spec Spec, n int) (*Set, error) {
	if n < 1 {
		return nil, fmt.Errorf("%d replicas of %s: at least 1 is needed", n, spec.Service)
	}
	s := &Set{
		spec:   spec.withDefaults(),
		client: &http.Client{Transport: &http.Transport{}, Timeout: readyTimeout},
	}
	s.backends.Store(&[]Backend{})
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end

	first := make(chan error, n)
	for i := range n {
		r := &Replica{set: s, name: fmt.Sprintf("%s-%d", spec.Service, i+1)}
		s.replicas = append(s.replicas, r)
	}
	for _, r := range s.replicas {
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
			gone, cancel := context.WithCancel(ctx)
			cancel()
			_ = s.Stop(gone) // reports that they were killed
			return nil, err
		}
	}
	return s, nil
}

// Replicas returns the replicas, ready or not, in the order of their names.
func (s *Set) Replicas() []*Replica { return s.replicas }

// Backends lists the replicas that take requests. The list is immutable.
func (s *Set) Backends() []Backend { return *s.backends.Load() }

// Stop ends all replicas at once by SIGTERM and returns when they have ended. One that does not end within
// Spec.StopTimeout is killed; when ctx ends, all are. The error names those that were killed or failed. Later calls
// wait too and return nil.
func (s *Set) Stop(ctx context.Context) error {
	var err error
	s.stopOnce.Do(func() { err = s.stop(ctx) })
	return err
}

func (s *Set) stop(ctx context.Context) error {
	s.end()
	errs := make([]error, len(s.replicas))
	var wg sync.WaitGroup
	for i, r := range s.replicas {
		wg.Go(func() {
			if p := r.current(); p != nil {
				errs[i] = p.stop(s.spec.StopTimeout, ctx.Done())
			}
		})
	}
	wg.Wait()
	s.wg.Wait()
	s.client.CloseIdleConnections()
	return errors.Join(errs...)
}

// list renews the list of backends.
func (s *Set) list() {
	s.listing.Lock()
	defer s.listing.Unlock()
	list := make([]Backend, 0, len(s.replicas))
	for _, r := range s.replicas {
		if st := r.Status(); st.Ready {
			list = append(list, Backend{Name: st.Name, Addr: st.API})
		}
	}
	s.backends.Store(&list)
}
