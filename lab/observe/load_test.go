package observe

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

const (
	// callers send each request of a service's story at once, so that they meet.
	callers = 10
	// pause is the time between two requests of a story.
	pause = 150 * time.Millisecond
)

// startLoad has callers tell the stories of all services again and again; they end with the test.
func startLoad(t *testing.T, r *rig) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var telling sync.WaitGroup
	t.Cleanup(func() {
		stop()
		telling.Wait()
	})

	for _, s := range subjects(t) {
		telling.Go(func() {
			ticker := time.NewTicker(pause)
			defer ticker.Stop()
			for round := 0; ctx.Err() == nil; round++ {
				for _, one := range s.story {
					r.sendAll(t, s.service, one.request.in(round))
					<-ticker.C
				}
			}
		})
	}
}

// sendAll has all callers send a request, each to one of the replicas that are ready, drawn at random.
func (r *rig) sendAll(t *testing.T, service string, q request) {
	t.Helper()
	ready := r.of(service).Ready()
	if len(ready) == 0 {
		return
	}

	var sending sync.WaitGroup
	for range callers {
		sending.Go(func() { q.send(t, ready[rand.N(len(ready))].API) })
	}
	sending.Wait()
}
