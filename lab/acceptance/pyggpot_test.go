package acceptance

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
)

// 50 clients change one pot for ten seconds on three replicas, adds and removes
// mixed: what is in it is what was put in less what was taken out, at every moment
// between nothing and what fits.
func TestFiftyClientsOnOnePot(t *testing.T) {
	t.Parallel()
	const clients, maxCoins, lasts = 50, 400, 10 * time.Second
	dsn := dbtest.Empty(t)
	apis := addrs(pyggpot(t, 3, dsn, nil))
	c := newClient(t)
	c.makePot(t, apis[0], maxCoins)
	db := dial(t, dsn)

	var mu sync.Mutex
	var sum, changes int
	var times []time.Duration
	codes := map[string]int{}
	end := time.Now().Add(lasts)
	var done sync.WaitGroup
	for i := range clients {
		done.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				var m moved
				sign := 1
				if coins := 1 + rand.IntN(20); (n+i)%2 == 0 {
					m = c.add(t.Context(), apis[i%len(apis)], coins)
				} else {
					m, sign = c.remove(t.Context(), apis[i%len(apis)], 2*coins), -1
				}
				if n%10 == 0 {
					if seen := c.inPot(t, apis[(i+1)%len(apis)]); seen.coins < 0 || seen.coins > maxCoins {
						t.Errorf("there are %d coins in a pot of %d", seen.coins, maxCoins)
					}
				}
				mu.Lock()
				codes[m.code]++
				times = append(times, m.took)
				if m.outcome == acknowledged {
					sum += sign * m.coins
					changes++
				}
				mu.Unlock()
				if m.outcome == unknown || m.outcome == refused {
					t.Errorf("nothing is broken, and the answer is %+v", m)
					return
				}
			}
		})
	}
	done.Wait()
	wantPot(t, db, sum, sum)
	slices.Sort(times)
	t.Logf("%d changes, answers by code %v, p50 %s, p99 %s, %d coins left", changes, codes,
		times[len(times)/2].Round(time.Millisecond), times[len(times)*99/100].Round(time.Millisecond), sum)
	if changes < 100 || codes["failed_precondition"] == 0 {
		t.Errorf("%d changes, %d times the pot was full: too few to prove anything", changes, codes["failed_precondition"])
	}
	if n := codes["aborted"]; n > len(times)/10 {
		t.Errorf("%d of %d changes were aborted", n, len(times))
	}
}

// A holder is stopped (SIGSTOP) with the lease in its hands, for twice the lease's
// time, in its fence or within its transaction. Others take the pot over; when it
// goes on, its change is refused, and nothing is applied twice. To look waits for
// nobody meanwhile.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]bool{"before its fence": false, "within its transaction": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			variables := map[string]string{"LOCK_TTL": "1s", "LOCK_RETRIES": "0"}
			set := pyggpot(t, 1, dsn, variables)
			other := addrs(pyggpot(t, 1, dsn, map[string]string{"LOCK_TTL": "1s", "LOCK_RETRIES": "200"}))[0]
			c := newClient(t)
			c.makePot(t, other, 1000)
			db := dial(t, dsn)
			stale := set.Replicas()[0]
			h := hold(t, c, db, stale.Status().API, 5)
			if err := stale.Pause(); err != nil {
				t.Fatal(err)
			}
			if within { // its fence goes through, and its server session waits for a client that is stopped
				h.free()
				if m := c.inPot(t, other); m.took > time.Second {
					t.Errorf("a look took %s", m.took)
				}
			} else {
				leaseOver(t, db)
				h.free()
			}
			if m := c.add(t.Context(), other, 1); m.outcome != acknowledged || m.took > 4*time.Second {
				t.Errorf("another replica: %+v", m)
			}
			wantPot(t, db, 2, 2)
			pause(t.Context(), 2*time.Second) // twice the lease, at least
			if err := stale.Resume(); err != nil {
				t.Fatal(err)
			}
			m := <-h.answer
			if m.outcome != notApplied || m.code != "aborted" && m.code != "unavailable" {
				t.Errorf("the stale holder answers %+v", m)
			}
			wantPot(t, db, 2, 2)
			eventually(t, "the stale holder takes part again", 10*time.Second, func() bool {
				return c.add(t.Context(), stale.Status().API, 1).outcome == acknowledged
			})
			wantPot(t, db, 4, 4)
		})
	}
}

// A holder is killed (SIGKILL): the pot is free when its lease is over, and
// nothing of its change is there.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	doomed := pyggpot(t, 1, dsn, map[string]string{"LOCK_TTL": "2s"})
	other := addrs(pyggpot(t, 1, dsn, map[string]string{"LOCK_RETRIES": "500"}))[0]
	c := newClient(t)
	c.makePot(t, other, 1000)
	db := dial(t, dsn)
	h := hold(t, c, db, addrs(doomed)[0], 5)
	begin := time.Now()
	if err := doomed.Replicas()[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if m := <-h.answer; m.outcome != unknown {
		t.Errorf("a dead replica answered %+v", m)
	}
	h.free()
	if m := c.inPot(t, other); m.took > time.Second || m.coins != 0 {
		t.Errorf("a look: %+v", m)
	}
	m := c.add(t.Context(), other, 1)
	if m.outcome != acknowledged {
		t.Errorf("another replica: %+v", m)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the pot was held for %s after its holder's death", took)
	}
	wantPot(t, db, 2, 2)
	eventually(t, "the killed replica is back", 30*time.Second, func() bool {
		st := doomed.Replicas()[0].Status()
		return st.Ready && st.Starts > 1
	})
}

// Replicas get SIGTERM one after the other behind a balancer: no client notices.
func TestPyggpotRollingRestart(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	set := pyggpot(t, 2, dsn, map[string]string{"SHUTDOWN_DELAY": "1s"})
	addr := balanced(t, set)
	c := newClient(t)
	c.makePot(t, addr, 1_000_000)
	stop := make(chan struct{})
	var mu sync.Mutex
	sum := 0
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				m := c.add(t.Context(), addr, 1)
				if m.outcome != acknowledged {
					t.Errorf("a client noticed: %+v", m)
					return
				}
				mu.Lock()
				sum += m.coins
				mu.Unlock()
			}
		})
	}
	for _, r := range set.Replicas() {
		terminate(t, r)
	}
	close(stop)
	done.Wait()
	wantPot(t, dial(t, dsn), sum, sum)
	if sum < 50 {
		t.Errorf("only %d coins", sum)
	}
}
