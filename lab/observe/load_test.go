package observe

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

// load sends the requests of all services' callers.
type load struct {
	rig *rig
	// stop ends it, once and for all.
	stop func()
	// by counts the answers by status, 0 for none.
	mu sync.Mutex
	by map[int]int
}

const (
	// burst is the number of requests for a service that begin at once.
	burst = 10
	// clients is the number of requests for a service in flight at most.
	clients = 24
)

// startLoad starts the callers; they end with stop or with the test.
func startLoad(t *testing.T, r *rig) *load {
	t.Helper()
	l := &load{rig: r, by: map[int]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	l.stop = func() {
		cancel()
		calling.Wait()
	}
	t.Cleanup(l.stop)
	for _, s := range subjects() {
		for _, q := range s.prepare {
			if a := l.send(t, s.service, q); a.Status/100 != 2 {
				t.Fatalf("%s %s: %s", q.method, q.path, a)
			}
		}
		calls := make(chan int)
		calling.Go(func() { l.pace(ctx, s, calls) })
		for range clients {
			calling.Go(func() {
				for n := range calls {
					l.send(t, s.service, s.next(n))
				}
			})
		}
	}
	return l
}

// pace numbers the calls of a service's clients in bursts, so that requests meet, until ctx ends.
func (l *load) pace(ctx context.Context, s subject, calls chan<- int) {
	defer close(calls)
	ticker := time.NewTicker(burst * time.Second / time.Duration(s.perSecond))
	defer ticker.Stop()
	for n := 0; ; n += burst {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		for i := range burst {
			select {
			case calls <- n + i:
			default: // all clients are busy
			}
		}
	}
}

// send sends to one of the replicas that are ready, drawn at random: by turns one replica would get all requests for
// one key. It counts the answer, whose status is 0 for none.
func (l *load) send(t *testing.T, service string, q request) (a apptest.Answer) {
	t.Helper()
	if ready := l.rig.of(service).Ready(); len(ready) > 0 {
		a = q.send(t, ready[rand.N(len(ready))].API)
	}
	if q.then != nil {
		q.then(a)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[a.Status]++
	return a
}
