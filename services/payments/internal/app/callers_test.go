package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/waittest"
)

const (
	shop = "system:serviceaccount:shop:checkout"
	taxi = "system:serviceaccount:taxi:rides"

	everyone = `rules: [{subjects: ["system:serviceaccount:*"], services: [payments], allow: [read, change]}]`
)

// startWithAuth runs a replica that takes the issuer's tokens, and waits until it has the keys.
func startWithAuth(t *testing.T, dsn string, i *authtest.Issuer, environ map[string]string) *replica {
	t.Helper()
	r := start(t, dsn, environ, i.Environ(t, everyone))
	waittest.Eventually(t, "the issuer's keys are known", func() bool {
		return apptest.Send(t, http.MethodGet, r.api+"?ride_id=none", "", i.Header(shop)).Status == http.StatusOK
	})
	return r
}

// payAs sends a payment with a caller's token.
func (r *replica) payAs(t *testing.T, i *authtest.Issuer, caller, key, body string) answer {
	t.Helper()
	header := i.Header(caller, apptest.JSON(), map[string]string{"Idempotency-Key": key})
	a := apptest.Send(t, http.MethodPost, r.api, body, header)
	return answer{a, a.Header.Get("Idempotent-Replayed") == "true"}
}

// A replica without AUTH and one with it run side by side, as while the setting is rolled out or back: a request and
// its repeats, which meet both at once, are charged once, by the processor's own ledger, and get one answer.
func TestAuthIsSwitched(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	issuer := authtest.New(t)
	environ := map[string]string{"PROCESSOR_LATENCY_MAX": "5ms"}
	off, token := start(t, dsn, environ), startWithAuth(t, dsn, issuer, environ)
	const rounds = 20
	firsts := make([]answer, rounds)
	for round := range rounds {
		key := fmt.Sprint("switched ", round)
		answers := crowd(t, 12, func(i int) answer {
			// Clients send their tokens before the switch.
			return []*replica{off, token}[i%2].payAs(t, issuer, shop, key, body(round+1, goodCard))
		})
		for _, a := range answers {
			if a.Body != answers[0].Body {
				t.Errorf("two answers to one request:\n%s\n%s", a, answers[0])
			}
		}
		firsts[round] = answers[0]
	}
	db.counts(t, rounds, rounds, rounds)
	// All replicas have switched on: what was paid on the way is paid.
	if err := off.Stop(); err != nil {
		t.Fatal(err)
	}
	second := startWithAuth(t, dsn, issuer, environ)
	for round, first := range firsts {
		second.payAs(t, issuer, shop, fmt.Sprint("switched ", round), body(round+1, goodCard)).repeats(t, first)
	}
	db.counts(t, rounds, rounds, rounds)
	// And back.
	back := start(t, dsn, environ)
	for round, first := range firsts {
		back.pay(t, fmt.Sprint("switched ", round), body(round+1, goodCard)).repeats(t, first)
	}
	db.counts(t, rounds, rounds, rounds)
}

// A charge whose answer was lost before AUTH was switched on, or off, is settled by the repeat after it.
func TestALostChargeBeforeTheSwitch(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	issuer := authtest.New(t)
	short := map[string]string{"PROCESSOR_TIMEOUT": "1s"}
	off, token := start(t, dsn, short), startWithAuth(t, dsn, issuer, short)
	off.pay(t, "on", body(100, timeoutCard)).want(t, 504, "PROCESSOR_TIMEOUT")
	token.payAs(t, issuer, taxi, "on", body(101, timeoutCard)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	token.payAs(t, issuer, shop, "on", body(100, timeoutCard)).paid(t)
	token.payAs(t, issuer, shop, "off", body(100, timeoutCard)).want(t, 504, "PROCESSOR_TIMEOUT")
	off.pay(t, "off", body(100, timeoutCard)).paid(t)
	db.counts(t, 2, 2, 2)
}

// The same key of two callers is two keys, whatever they pay: neither can use up or read the other's.
func TestKeysBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	issuer := authtest.New(t)
	r := startWithAuth(t, dsn, issuer, nil)
	first := r.payAs(t, issuer, shop, "k", body(1, goodCard)).paid(t)
	same := r.payAs(t, issuer, taxi, "k", body(1, goodCard)).paid(t)
	if same.Body == first.Body {
		t.Errorf("another caller got %s", same)
	}
	r.payAs(t, issuer, taxi, "other", body(1, goodCard)).paid(t)
	r.payAs(t, issuer, shop, "other", body(2, goodCard)).paid(t)
	r.payAs(t, issuer, shop, "k", body(1, goodCard)).repeats(t, first)
	r.payAs(t, issuer, taxi, "k", body(1, goodCard)).repeats(t, same)
	r.payAs(t, issuer, taxi, "k", body(2, goodCard)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	db.counts(t, 4, 4, 4)
}
