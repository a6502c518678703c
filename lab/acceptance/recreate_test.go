package acceptance

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
			if value := get[int](t, db, `SELECT current_value FROM counts.count_values`); value != n {
				t.Errorf("the count is %d after %d keys", value, n)
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

	// Clients send their tokens before the switch.
	token := issuer.Token("checkout")
	old, sends := start("off", token, nil)
	load := driveKeys(t, sends)
	waittest.Eventually(t, "some are answered", func() bool { return load.answered() > 100 })
	killed := old.Replicas()[0]
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the killed replica is back", func() bool {
		status := killed.Status()
		return status.Ready && status.Starts > 1
	})
	close(load.quit) // the last requests are under way
	if err := old.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	load.callers.Wait()
	first := load.first

	policy := fmt.Sprintf("rules: [{subjects: [checkout], services: [%s], allow: [change, read]}]", k.service)
	_, sends = start("token", token, issuer.Environ(t, policy))
	lost := 0
	for key, answer := range first {
		again, replayed, err := repeat(t, k, sends[0], key)
		switch {
		case answer == "": // it was not answered, and is made now or was made then
			lost++
			answer = again
		case !replayed || again != answer:
			t.Errorf("%s was answered\n%s, and then, replayed %t,\n%s, %v", key, answer, replayed, again, err)
		}
		if last, replayed, err := repeat(t, k, sends[1], key); !replayed || last != answer {
			t.Errorf("%s was answered\n%s, and then, replayed %t,\n%s, %v", key, answer, replayed, last, err)
		}
	}
	k.once(t, dbtest.Dial(t, dsn), len(first))
	t.Logf("%d keys, of which %d were not answered before the switch", len(first), lost)
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

// load sends requests with keys, and notes the first answers.
type load struct {
	quit    chan struct{}
	callers sync.WaitGroup

	mu    sync.Mutex
	first map[string]string // by the key; "" while there is none
}

// driveKeys sends requests by all of the functions at once, until quit is closed. A caller without an answer gives up.
func driveKeys(t *testing.T, sends []send) *load {
	t.Helper()
	l := &load{quit: make(chan struct{}), first: make(map[string]string)}
	const callers = 16
	for caller := range callers {
		l.callers.Go(func() {
			for n, answered := 0, true; answered; n++ {
				select {
				case <-l.quit:
					return
				default:
					key := fmt.Sprintf("switched-%d-%d", caller, n)
					answered = l.send(context.WithoutCancel(t.Context()), sends[caller%len(sends)], key)
				}
			}
		})
	}
	return l
}

// send sends a request, and reports whether it was answered.
func (l *load) send(ctx context.Context, send send, key string) bool {
	l.note(key, "")
	answer, _, err := send(ctx, key)
	if err == nil {
		l.note(key, answer)
	}
	return err == nil
}

func (l *load) note(key, answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first[key] = answer
}

// answered returns how many requests have an answer.
func (l *load) answered() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, answer := range l.first {
		if answer != "" {
			n++
		}
	}
	return n
}
