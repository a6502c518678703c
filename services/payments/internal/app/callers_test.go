package app_test

import (
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
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

// A charge whose answer was lost before AUTH was switched on is settled by the repeat after it, and no other content is
// charged under its key.
func TestALostChargeBeforeTheSwitch(t *testing.T) {
	t.Parallel()
	dsn, db := open(t)
	issuer := authtest.New(t)
	short := map[string]string{"PROCESSOR_TIMEOUT": "1s"}
	off := start(t, dsn, short)
	off.pay(t, "k", body(100, timeoutCard)).want(t, 504, "PROCESSOR_TIMEOUT")
	if err := off.Stop(); err != nil {
		t.Fatal(err)
	}

	token := startWithAuth(t, dsn, issuer, short)
	token.payAs(t, issuer, taxi, "k", body(101, timeoutCard)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT")
	first := token.payAs(t, issuer, shop, "k", body(100, timeoutCard)).paid(t)
	token.payAs(t, issuer, shop, "k", body(100, timeoutCard)).repeats(t, first)
	db.counts(t, 1, 1, 1)
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
