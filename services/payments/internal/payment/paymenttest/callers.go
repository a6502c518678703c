package paymenttest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

const (
	shop = "system:serviceaccount:shop:checkout"
	taxi = "system:serviceaccount:taxi:rides"
)

// of returns a caller's claim of the key "k". All of them have the same content.
func of(caller string, ttl time.Duration) payment.Claim {
	c := NewClaim("k", ttl)
	c.Key.Caller = caller
	return c
}

// mustSettle settles a payment, which must be a new one.
func mustSettle(t *testing.T, repo payment.Repository, c payment.Claim) (payment.Record, payment.Held) {
	t.Helper()
	var held payment.Held
	r, fresh, err := Settle(t.Context(), repo, c, func(h payment.Held) (payment.Payment, error) {
		held = h
		return NewPayment(h), nil
	})
	if err != nil || !fresh {
		t.Fatalf("%+v: fresh %t, %v", c.Key, fresh, err)
	}
	return r, held
}

// mustGet demands a record for a claim.
func mustGet(t *testing.T, repo payment.Repository, c payment.Claim, want payment.Record) {
	t.Helper()
	got, err := repo.Claim(t.Context(), c)
	if err != nil || got.Record == nil || !reflect.DeepEqual(*got.Record, want) {
		t.Errorf("%+v: %+v, %v, want %+v", c.Key, got.Record, err, want)
	}
}

// wantConflict demands that a claim of other content is refused.
func wantConflict(t *testing.T, repo payment.Repository, c payment.Claim) {
	t.Helper()
	if _, err := repo.Claim(t.Context(), Other(c)); !errors.Is(err, payment.ErrKeyConflict) {
		t.Errorf("%+v with other content: %v, want ErrKeyConflict", c.Key, err)
	}
}

// ownKeys: a key of one caller is not the key of another, whatever the content.
func ownKeys(t *testing.T, repo payment.Repository) {
	callers := []string{shop, taxi, shop + " ", "'; DROP TABLE payments.payments; --"}
	records, charged := make([]payment.Record, len(callers)), make(map[string]bool)
	for i, caller := range callers {
		r, h := mustSettle(t, repo, of(caller, long))
		records[i], charged[h.ProcessorKey] = r, true
	}
	for i, caller := range callers {
		mustGet(t, repo, of(caller, long), records[i])
		wantConflict(t, repo, of(caller, long))
	}
	wantPayments(t, repo, len(callers))
	if len(charged) != len(callers) {
		t.Errorf("%d payments were charged under %d keys", len(callers), len(charged))
	}
}

// ownRecordsExpire: an expired key is new only to its caller, if there is one, cleaned up or not, and is charged under
// another processor's key.
func ownRecordsExpire(t *testing.T, repo payment.Repository) {
	other, _ := mustSettle(t, repo, of(taxi, long))
	for expired, caller := range []string{"", shop} {
		for round := range 3 {
			c := of(caller, instant)
			if _, h := mustSettle(t, repo, c); h.ProcessorKey != payment.ProcessorKey(c.Key, round) {
				t.Errorf("%q is charged under %s, want the key of payment %d", caller, h.ProcessorKey, round)
			}
			mustGet(t, repo, of(taxi, long), other)
			if round == 1 { // also when the record is gone
				if n, err := repo.DeleteExpired(t.Context(), 10); n != 1+expired || err != nil {
					t.Errorf("deleted %d, %v, want %d", n, err, 1+expired)
				}
			}
		}
	}
	wantPayments(t, repo, 1+2*3)
}

// recordsOfNoCaller: a record that was stored before callers were identified belongs to every caller, until it expires.
func recordsOfNoCaller(t *testing.T, repo payment.Repository) {
	r, _ := mustSettle(t, repo, of("", long))
	for _, caller := range []string{shop, taxi} {
		mustGet(t, repo, of(caller, long), r)
		wantConflict(t, repo, of(caller, long))
	}
	wantPayments(t, repo, 1)

	c := NewClaim("expires", instant)
	mustSettle(t, repo, c)
	c = NewClaim("expires", long)
	c.Key.Caller = shop
	if _, h := mustSettle(t, repo, c); h.ProcessorKey != payment.ProcessorKey(c.Key, 0) {
		t.Errorf("after the record without a caller expired: %+v", h)
	}
}

// claimsOfNoCaller: a payment that began before callers were identified ends under the same processor's key.
func claimsOfNoCaller(t *testing.T, repo payment.Repository) {
	first := mustHold(t, repo, long)
	wantConflict(t, repo, of(shop, long))
	if err := repo.GiveBack(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	wantConflict(t, repo, of(shop, long))
	r, second := mustSettle(t, repo, of(shop, long))
	if !second.TakenOver || second.ProcessorKey != first.ProcessorKey {
		t.Errorf("%+v was taken over as %+v", first, second)
	}
	for _, caller := range []string{"", shop, taxi} {
		mustGet(t, repo, of(caller, long), r)
	}
	wantPayments(t, repo, 1)
}
