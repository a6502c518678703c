package observe

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

// burst is the number of requests for a service that begin at once, so that they meet.
const burst = 10

// startLoad starts the callers of all services; they end with the test.
func startLoad(t *testing.T, r *rig) {
	t.Helper()
	for _, s := range subjects() {
		for _, q := range s.prepare {
			if a := r.send(t, s.service, q); a.Status/100 != 2 {
				t.Fatalf("%s %s: %s", q.method, q.path, a)
			}
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	t.Cleanup(func() {
		stop()
		calling.Wait()
	})
	for _, s := range subjects() {
		calling.Go(func() {
			ticker := time.NewTicker(burst * time.Second / time.Duration(s.perSecond))
			defer ticker.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				if n%burst == 0 {
					<-ticker.C
				}
				calling.Go(func() { r.send(t, s.service, s.next(n)) })
			}
		})
	}
}

// send sends to one of the replicas that are ready, drawn at random: by turns one replica would get all requests for
// one key.
func (r *rig) send(t *testing.T, service string, q request) (a apptest.Answer) {
	t.Helper()
	if ready := r.of(service).Ready(); len(ready) > 0 {
		a = q.send(t, ready[rand.N(len(ready))].API)
	}
	if q.then != nil {
		q.then(a)
	}
	return a
}
