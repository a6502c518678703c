package acceptance

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
)

// A replica is killed (SIGKILL) at each step of a payment; another one is asked
// again with the same key: one charge, one payment, and the key is never stuck.
func TestPaymentKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for step, charged := range map[string]int{
		"claimed": 0, "charging": 0, // nothing is charged yet
		"charged": 1, "stored": 1, // charged, and the payment's transaction is gone with the replica
		"committed": 1, // only the answer is lost
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			healthy := payments(t, 1, localtest.Binary(t, "payments"), dsn, nil)
			doomed := payments(t, 1, failing(t), dsn, map[string]string{"ROWLOCK_FAILPOINT": step})
			c := newClient(t)
			const key = "ride-1"
			if p := c.pay(t.Context(), addrs(doomed)[0], key, 1250); p.err == nil {
				t.Fatalf("the replica was to die at %q and answered %+v", step, p)
			}
			paid := 0
			if step == "committed" {
				paid = 1
			}
			wantBooks(t, dsn, paid, charged)

			begin := time.Now()
			first := c.pay(t.Context(), addrs(healthy)[0], key, 1250)
			if !first.definitive() || first.replayed != (paid == 1) {
				t.Fatalf("the retry by another replica: %+v", first)
			}
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("the key was held for %s after its holder's death", took)
			}
			if again := c.pay(t.Context(), addrs(healthy)[0], key, 1250); again.body != first.body || !again.replayed {
				t.Errorf("the repeat: %+v, first %+v", again, first)
			}
			wantBooks(t, dsn, 1, 1)
			eventually(t, "the killed replica is back", 30*time.Second, func() bool {
				st := doomed.Replicas()[0].Status()
				return st.Ready && st.Starts > 1
			})
		})
	}
}

// A failpoint is compiled in by its tag only.
func TestShippedBinaryHasNoFailpoints(t *testing.T) {
	t.Parallel()
	contains := func(path string) bool {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(raw), "ROWLOCK_FAILPOINT")
	}
	if contains(localtest.Binary(t, "payments")) {
		t.Error("the binary that is shipped knows ROWLOCK_FAILPOINT")
	}
	if !contains(failing(t)) {
		t.Error("the binary with the tag does not: the test proves nothing")
	}
}

// Clients repeat each payment until it is settled, while replicas are killed and
// replies are lost around them: each ride is charged once, by the one amount, and
// every definitive answer to a key is the same.
func TestPaymentsUnderFire(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	proxy := faultproxy.New(t, dsn)
	set := payments(t, 3, localtest.Binary(t, "payments"), proxy.DSN(dsn), map[string]string{"LOCK_WAIT": "1s", "MIGRATE_DATABASE_URL": dsn})
	addr := balanced(t, set)
	c := newClient(t)
	proxy.CutEvery(40, faultproxy.AfterCommit, faultproxy.RST)
	proxy.CutEvery(60, faultproxy.AfterStatement, faultproxy.FIN)

	const rides, clients, twins = 120, 12, 2
	answers := make([][]payment, rides)
	var mu sync.Mutex
	codes := map[string]int{}
	var settled int
	deadline := time.Now().Add(time.Minute)
	settle := func(ride int) {
		for time.Now().Before(deadline) {
			p := c.pay(t.Context(), addr, fmt.Sprintf("ride-%d", ride), 100+ride)
			mu.Lock()
			codes[p.code]++
			if p.definitive() {
				answers[ride] = append(answers[ride], p)
				settled++
			}
			mu.Unlock()
			if p.definitive() {
				return
			}
			if p.code == "IDEMPOTENCY_KEY_CONFLICT" || p.status == 400 {
				t.Errorf("ride %d: %+v", ride, p)
				return
			}
		}
		t.Errorf("ride %d is not settled", ride)
	}
	turns := make(chan int)
	var done sync.WaitGroup
	for range clients {
		done.Go(func() {
			for ride := range turns {
				settle(ride)
			}
		})
	}
	done.Go(func() {
		defer close(turns)
		for i := range rides * twins { // twins of a ride are close together
			turns <- i / twins
		}
	})
	for i, r := range set.Replicas() {
		enough := (i + 1) * rides * twins / 5
		eventually(t, "there is load", time.Minute, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return settled >= enough
		})
		if err := r.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	done.Wait()
	proxy.StopCutting()
	for ride, list := range answers {
		for _, p := range list {
			if p.body != list[0].body {
				t.Errorf("ride %d has two answers:\n%s\n%s", ride, p.body, list[0].body)
			}
		}
		if len(list) != twins {
			t.Errorf("ride %d has %d answers, want %d", ride, len(list), twins)
		}
	}
	wantBooks(t, dsn, rides, rides)
	t.Logf("%d cuts, answers by code %v", proxy.Cuts(), codes)
	if proxy.Cuts() < 5 {
		t.Errorf("only %d cuts: the test proves little", proxy.Cuts())
	}
}

// Replicas get SIGTERM one after the other behind a balancer: no client notices.
func TestPaymentsRollingRestart(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	set := payments(t, 2, localtest.Binary(t, "payments"), dsn, map[string]string{"SHUTDOWN_DELAY": "1s", "PROCESSOR_LATENCY": "20ms"})
	addr := balanced(t, set)
	c := newClient(t)
	stop := make(chan struct{})
	var mu sync.Mutex
	paid := 0
	var done sync.WaitGroup
	for w := range 4 {
		done.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if p := c.pay(t.Context(), addr, fmt.Sprintf("ride-%d-%d", w, i), 1); !p.definitive() {
					t.Errorf("a client noticed: %+v", p)
					return
				}
				mu.Lock()
				paid++
				mu.Unlock()
			}
		})
	}
	for _, r := range set.Replicas() {
		terminate(t, r)
	}
	close(stop)
	done.Wait()
	wantBooks(t, dsn, paid, paid)
	if paid < 50 {
		t.Errorf("only %d payments", paid)
	}
}
