package acceptance

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
)

// holdAtMost is longer than any test holds what it has claimed.
const holdAtMost = 5 * time.Minute

// 50 clients over 3 replicas for ten seconds, both kinds mixed, while two workers
// work and readers look: ids 1..n, and n is status and the count. An id that was
// given is found at once, at any replica; the count never falls.
func TestEventsOfManyClients(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(t *testing.T, rig *eventsRig) {
		t.Helper()
		apis := addrs(rig.processes(t, 3, "serve", nil))
		rig.processes(t, 2, "work", nil)
		c := newClient(t)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var mu sync.Mutex
		var ids []int64
		var given, reads atomic.Int64
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					path, status := "/events", http.StatusCreated
					if (i+k)%2 == 0 {
						path, status = "/events/async", http.StatusAccepted
					}
					a := c.event(t.Context(), http.MethodPost, "http://"+apis[i%3]+path)
					if a.status != status || a.err != nil {
						t.Errorf("%s: %+v", path, a)
						return
					}
					mu.Lock()
					ids = append(ids, a.ID)
					mu.Unlock()
					raise(&given, a.ID)
					if k%8 > 0 {
						continue
					}
					found := c.event(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/events/%d", apis[(i+1)%3], a.ID))
					if found.status != http.StatusOK || found.ID != a.ID || a.Value != nil && (found.Value == nil || *found.Value != *a.Value) {
						t.Errorf("event %d: %+v", a.ID, found)
					}
				}
			})
		}
		for range 2 {
			all.Go(func() {
				for before := int64(0); ctx.Err() == nil; reads.Add(1) {
					floor := max(before, given.Load())
					a := c.event(t.Context(), http.MethodGet, "http://"+apis[rand.IntN(3)]+"/events")
					if a.status != http.StatusOK || a.Count < floor {
						t.Errorf("the count is %+v, it was at least %d", a, floor)
						return
					}
					before = a.Count
				}
			})
		}
		all.Wait()
		slices.Sort(ids)
		for i, id := range ids {
			if id != int64(i+1) {
				t.Fatalf("id %d stands where %d should", id, i+1)
			}
		}
		n := int64(len(ids))
		rig.wantGapless(t, n)
		if a := c.event(t.Context(), http.MethodGet, "http://"+apis[0]+"/events"); a.Count != n || n < 200 || reads.Load() < 20 {
			t.Errorf("the count is %d, %d were given, %d reads", a.Count, n, reads.Load())
		}
		eventually(t, "the workers have come to all", 30*time.Second, func() bool {
			return rig.number(t, `SELECT count(*) FROM TABLES.events WHERE value IS NULL`) == 0
		})
		t.Logf("%d events, %d reads of the count", n, reads.Load())
	})
}

// raise makes v at least n.
func raise(v *atomic.Int64, n int64) {
	for known := v.Load(); known < n; known = v.Load() {
		if v.CompareAndSwap(known, n) {
			return
		}
	}
}

// 4 workers in 2 processes and 20,000 pending events. One process is killed -9 in
// the middle, and again; a transaction that has claimed 100 events is held open all
// the while. The workers finish everything else; released, the 100 too. Every event
// has one value, and one that had it keeps it.
func TestEventsAreWorkedOnce(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(t *testing.T, rig *eventsRig) {
		t.Helper()
		const pending, held = 20_000, 100
		api := addrs(rig.processes(t, 1, "serve", nil))[0]
		rig.enqueue(t, pending)
		rig.slowDown(t)
		stalled, release := rig.hold(t, held)
		if len(stalled) != held {
			t.Fatalf("%d events are held, want %d", len(stalled), held)
		}
		const count = `SELECT count(*) FROM TABLES.events WHERE value IS NULL`
		// Batches that are small enough for a kill to come in the middle of the work.
		workers := rig.processes(t, 2, "work", map[string]string{"WORKER_BATCH": "20", "WORKER_CONCURRENCY": "2"})
		var before map[int64]string
		for _, left := range []int64{pending * 4 / 5, pending / 2} {
			eventually(t, "the workers are in the middle", time.Minute, func() bool { return rig.number(t, count) < left })
			if err := workers.Replicas()[0].Kill(); err != nil {
				t.Fatal(err)
			}
			before = rig.values(t)
		}
		if n := len(before); n == 0 || n >= pending-held {
			t.Errorf("%d of %d were worked when the worker was killed: the test proved nothing", n, pending)
		}
		eventually(t, "all but the held ones are worked", 2*time.Minute, func() bool { return rig.number(t, count) == held })
		after := rig.values(t)
		for _, id := range stalled {
			if value, has := after[id]; has {
				t.Errorf("event %d was claimed, and has the value %q", id, value)
			}
		}
		// The held rows are in nobody's way.
		c := newClient(t)
		if a := c.event(t.Context(), http.MethodPost, "http://"+api+"/events/async"); a.status != http.StatusAccepted || a.ID != pending+1 {
			t.Errorf("an event beside the held ones: %+v", a)
		}
		eventually(t, "it is worked too", 20*time.Second, func() bool { return rig.number(t, count) == held })
		release()
		eventually(t, "the released ones are worked", 20*time.Second, func() bool { return rig.number(t, count) == 0 })
		rig.wantGapless(t, pending+1)
		maps.Copy(before, after)
		final := rig.values(t)
		for id, value := range before {
			if final[id] != value {
				t.Errorf("event %d had the value %q and has %q", id, value, final[id])
			}
		}
		if killed := workers.Replicas()[0].Status(); killed.Starts != 3 {
			t.Errorf("%s was started %d times, want 3", killed.Name, killed.Starts)
		}
	})
}

// Ten processes start on an empty database at once and migrate it.
func TestTenEventsProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(t *testing.T, rig *eventsRig) {
		t.Helper()
		apis := addrs(rig.processes(t, 10, "serve", map[string]string{"DB_MAX_OPEN_CONNS": "3"}))
		c := newClient(t)
		for i, api := range apis {
			if a := c.event(t.Context(), http.MethodPost, "http://"+api+"/events"); a.status != http.StatusCreated || a.ID != int64(i+1) {
				t.Errorf("replica %d: %+v", i+1, a)
			}
		}
		rig.wantGapless(t, 10)
	})
}

// The tour in the service's README, pasted into a shell, ends as that page says.
func TestEventsTour(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../services/events/README.md")
	if err != nil {
		t.Fatal(err)
	}
	script := strings.Join(block(t, string(readme), "## Tour", "sh"), "\n")
	answers := strings.Join(block(t, string(readme), "## Tour", "text"), "\n")
	const address = "http://127.0.0.1:8085"
	if !strings.Contains(script, address) {
		t.Fatalf("README has no tour at %s", address)
	}
	rig := &eventsRig{dsn: dbtest.Empty(t), schema: "events."}
	api := addrs(rig.processes(t, 2, "serve", nil))[0]
	rig.processes(t, 1, "work", nil)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, address, "http://"+api)).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := func(text string) []string {
		text = regexp.MustCompile(`"value":"[a-z]+"`).ReplaceAllString(text, `"value":"WORD"`)
		return regexp.MustCompile(`Location: \S+|\{"id":\d+.*\}|\{"count":\d+\}|"code":"\w+"`).FindAllString(text, -1)
	}
	if got, want := seen(string(out)), seen(answers); !slices.Equal(got, want) || len(want) < 8 {
		t.Errorf("the tour shows %q, README says %q:\n%s", got, want, out)
	}
}
