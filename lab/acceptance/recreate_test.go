package acceptance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/client/payments"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// keyed is a service whose changes have idempotency keys.
type keyed struct {
	service string
	environ map[string]string // of its replicas
	// open returns a function that makes a change under a key, and returns what was answered.
	open func(t *testing.T, url string, options []rowlock.Option) send
	// busy reports whether the same key is to be sent again after an error.
	busy func(err error) bool
	// once demands that each of n keys has made one change.
	once func(t *testing.T, db *sqlx.DB, n int)
}

// send makes a change under a key.
type send func(ctx context.Context, key string) (answer string, replayed bool, err error)

// TestAuthIsSwitchedOn switches AUTH from off to token by one upgrade, as a Deployment with `strategy: Recreate` does:
// all replicas of the old kind end, of which one was killed before, and then those of the new kind start. Each request
// of before is repeated with a token, answered or not: it gets its first answer, and has made one change.
func TestAuthIsSwitchedOn(t *testing.T) {
	t.Parallel()
	for _, k := range []keyed{keyedPayments(), keyedCounts()} {
		t.Run(k.service, func(t *testing.T) {
			t.Parallel()
			switchOn(t, k)
		})
	}
}

func keyedPayments() keyed {
	return keyed{
		service: targets.Payments,
		environ: map[string]string{"PROCESSOR_LATENCY_MAX": "30ms", "PROCESSOR_TIMEOUT": "500ms"},
		open: func(t *testing.T, url string, options []rowlock.Option) send {
			t.Helper()
			client, err := payments.New(url, options...)
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context, key string) (string, bool, error) {
				p, replayed, err := client.Create(ctx, key, targets.Ride("switched"))
				return fmt.Sprintf("%+v", p), replayed, err
			}
		},
		busy: func(err error) bool { return errors.Is(err, payments.ErrProcessing) },
		once: func(t *testing.T, db *sqlx.DB, n int) { t.Helper(); wantLedger(t, db, "switched on", n, n, 0) },
	}
}

func keyedCounts() keyed {
	return keyed{
		service: targets.Counts,
		open: func(t *testing.T, url string, options []rowlock.Option) send {
			t.Helper()
			client, err := counts.New(url, options...)
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context, key string) (answer string, replayed bool, err error) {
				values, err := client.Apply(ctx, []counts.Change{{ID: "switched", Amount: 1}},
					counts.WithKey(key), counts.CreateMissing(), counts.ReportReplayed(&replayed))
				return fmt.Sprint(values), replayed, err
			}
		},
		busy: rowlock.NotApplied,
		once: func(t *testing.T, db *sqlx.DB, n int) {
			t.Helper()
			var value int
			err := db.GetContext(t.Context(), &value, `SELECT current_value FROM counts.count_values`)
			if err != nil || value != n {
				t.Errorf("the count is %d after %d keys: %v", value, n, err)
			}
		},
	}
}

func switchOn(t *testing.T, k keyed) {
	t.Helper()
	s, err := targets.Named(k.service)
	if err != nil {
		t.Fatal(err)
	}
	dsn, issuer := dbtest.Empty(t), authtest.New(t)
	start := func(kind string, token string, environ map[string]string) (*local.Set, []send) {
		set := localtest.Start(t, 2, local.Spec{Service: k.service + "-" + kind, Path: localtest.Binary(t, k.service)},
			dsn, s.Environ, k.environ, environ)
		var sends []send
		for _, replica := range set.Replicas() {
			sends = append(sends, k.open(t, url(replica), append(options(), rowlock.WithToken(token))))
		}
		return set, sends
	}

	// Clients send their tokens before the switch. A caller without an answer gives up.
	token := issuer.Token("checkout")
	old, sends := start("off", token, nil)
	var first sync.Map // the answer by the key, "" if it was lost
	var answered atomic.Int64
	var callers sync.WaitGroup
	quit, end := context.WithCancel(t.Context())
	defer end()
	for caller := range 16 {
		callers.Go(func() {
			for n, lost := 0, false; !lost && quit.Err() == nil; n++ {
				key := fmt.Sprintf("switched-%d-%d", caller, n)
				answer, _, err := sends[caller%len(sends)](t.Context(), key)
				if lost = err != nil; lost {
					answer = ""
				}
				first.Store(key, answer)
				answered.Add(1)
			}
		})
	}

	waittest.Eventually(t, "some are answered", func() bool { return answered.Load() > 100 })
	killed := old.Replicas()[0]
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the killed replica is back", func() bool {
		status := killed.Status()
		return status.Ready && status.Starts > 1
	})
	end() // the last requests are under way
	if err := old.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	callers.Wait()

	policy := fmt.Sprintf("rules: [{subjects: [checkout], services: [%s], allow: [change, read]}]", k.service)
	_, sends = start("token", token, issuer.Environ(t, policy))
	keys, lost := 0, 0
	for key, answer := range first.Range {
		keys++
		if answer == "" {
			lost++
		}
		wantReplayed(t, k, sends, fmt.Sprint(key), fmt.Sprint(answer))
	}
	k.once(t, dbtest.Dial(t, dsn), keys)
	t.Logf("%d keys, of which %d were not answered before the switch", keys, lost)
}

// wantReplayed repeats a request that got the answer before by both functions, and demands that answer again. Where it
// is "", the request was made then or is made now.
func wantReplayed(t *testing.T, k keyed, sends []send, key, answer string) {
	t.Helper()
	for _, send := range sends {
		again, replayed, err := repeat(t, k, send, key)
		if err != nil || answer != "" && (!replayed || again != answer) {
			t.Errorf("%s was answered\n%s, and then, replayed %t,\n%s, %v", key, answer, replayed, again, err)
		}
		answer = again
	}
}

// repeat sends a request again until it is answered.
func repeat(t *testing.T, k keyed, send send, key string) (answer string, replayed bool, err error) {
	t.Helper()
	const patience = 30 * time.Second
	for begin := time.Now(); ; {
		answer, replayed, err = send(t.Context(), key)
		if err == nil || !k.busy(err) || time.Since(begin) > patience {
			return answer, replayed, err
		}
	}
}
