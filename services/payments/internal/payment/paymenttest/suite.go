// Package paymenttest holds the suite that every payment.Repository must pass: its
// contract, its transactions and its behavior under contention.
package paymenttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Exercise tests a repository against its port. open returns an empty repository for
// each test, which stores the receipts that Encode returns.
func Exercise(t *testing.T, open func(t *testing.T) payment.Repository) {
	t.Helper()
	tests := map[string]func(*testing.T, payment.Repository){
		"contract/round trip":              roundTrip,
		"contract/hostile keys":            hostileKeys,
		"contract/pages":                   pages,
		"contract/cleanup":                 cleanup,
		"claims/taken over":                takenOver,
		"claims/another secret":            anotherSecret,
		"claims/reconciled":                reconciled,
		"claims/reconciled after takeover": reconciledAfterATakeover,
		"claims/no cleaner's":              noCleaners,
		"callers/own keys":                 ownKeys,
		"callers/own records expire":       ownRecordsExpire,
		"callers/records of no caller":     recordsOfNoCaller,
		"callers/claims of no caller":      claimsOfNoCaller,
		"transactions/ended context":       endedContext,
		"contention/one owner per key":     oneOwner,
		"contention/one expired key":       oneOwnerOfExpired,
		"contention/failing owners":        failingOwners,
		"contention/cleaners and claimers": cleanersAndClaimers,
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

const (
	long    = time.Hour
	instant = time.Microsecond // expired at the next statement
)

// Encode returns a receipt that a store which parses and rewrites JSON would change.
func Encode(p payment.Payment) (payment.Receipt, error) {
	return payment.Receipt{Code: 201, Data: []byte(`{"b":1, "a":[ ],"a":1.50,"id":"` + string(p.ID) + "\"}\n")}, nil
}

// NewClaim returns a claim of the key without a caller. Its fingerprint is made of the key,
// and its lease does not end during a test.
func NewClaim(key string, ttl time.Duration) payment.Claim {
	sum := sha256.Sum256([]byte(key))
	return payment.Claim{
		Key: payment.Key{Value: key}, ID: payment.ClaimID(payment.NewID(time.Now())), TTL: ttl, Lease: time.Hour,
		Fingerprint: payment.Fingerprint{Sum: sum[:], Version: "test"},
		Same:        func(f payment.Fingerprint) (bool, error) { return bytes.Equal(f.Sum, sum[:]), nil },
		Terms: payment.Terms{
			Fare: payment.Fare{RideID: "ride", RiderID: "rider", Amount: payment.MaxAmount, Currency: "EUR"},
			Card: payment.CardFace{Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: 2030},
		},
	}
}

// Other returns a claim of the same key for content that no other claim has.
func Other(c payment.Claim) payment.Claim {
	sum := sha256.Sum256([]byte("other content"))
	c.Fingerprint.Sum = sum[:]
	c.Same = func(f payment.Fingerprint) (bool, error) { return bytes.Equal(f.Sum, sum[:]), nil }
	return c
}

// NewPayment returns a payment that the holder of a key may store.
func NewPayment(h payment.Held) payment.Payment {
	return payment.Payment{
		ID: payment.NewID(h.Now), Fare: h.Terms.Fare, Status: payment.Succeeded, Card: h.Terms.Card, CreatedAt: h.Now,
	}
}

// Pay settles a payment of the ride "ride" under the key.
func Pay(
	ctx context.Context, repo payment.Repository, key string, ttl time.Duration,
) (r payment.Record, fresh bool, err error) {
	return Settle(ctx, repo, NewClaim(key, ttl), func(h payment.Held) (payment.Payment, error) {
		return NewPayment(h), nil
	})
}

// Settle claims a key. If it gets the key, it calls charge and settles the payment, or drops
// the claim when charge fails.
func Settle(
	ctx context.Context, repo payment.Repository, c payment.Claim, charge func(payment.Held) (payment.Payment, error),
) (r payment.Record, fresh bool, err error) {
	claimed, err := repo.Claim(ctx, c)
	if err != nil || claimed.Record != nil {
		if claimed.Record != nil {
			r = *claimed.Record
		}
		return r, false, err
	}
	defer claimed.Leave()

	p, err := charge(claimed.Held)
	if err != nil {
		return r, false, errors.Join(err, repo.Drop(ctx, claimed.Held))
	}
	return repo.Settle(ctx, claimed.Held, p)
}

func mustPay(t *testing.T, repo payment.Repository, key string, ttl time.Duration) payment.Record {
	t.Helper()
	r, _ := mustSettle(t, repo, NewClaim(key, ttl))
	return r
}

func mustReplay(t *testing.T, repo payment.Repository, key string, want payment.Record) {
	t.Helper()
	if r, fresh, err := Pay(t.Context(), repo, key, long); err != nil || fresh || !reflect.DeepEqual(r, want) {
		t.Errorf("%.40q: fresh %t, %v\n%+v, want\n%+v", key, fresh, err, r, want)
	}
}

// wantPayments counts the payments of the ride.
func wantPayments(t *testing.T, repo payment.Repository, want int) {
	t.Helper()
	if page, err := repo.FindOfRide(t.Context(), "ride", nil, 1000); err != nil || len(page) != want {
		t.Errorf("%d payments, %v, want %d", len(page), err, want)
	}
}

func roundTrip(t *testing.T, repo payment.Repository) {
	ctx := t.Context()
	for _, decline := range []string{"", "card_declined"} {
		key := "key " + decline
		var want payment.Payment
		charge := func(h payment.Held) (payment.Payment, error) {
			if h.TakenOver || h.ProcessorKey != payment.ProcessorKey(payment.Key{Value: key}, 0) ||
				time.Since(h.Now).Abs() > time.Minute || h.Now.Location() != time.UTC {
				t.Errorf("holds %+v", h)
			}
			want = NewPayment(h)
			if decline != "" {
				want.Status, want.DeclineCode = payment.Declined, decline
			}
			return want, nil
		}

		if _, _, err := Settle(ctx, repo, NewClaim(key, long), charge); err != nil {
			t.Fatal(err)
		}
		if got, err := repo.Find(ctx, want.ID); err != nil || got != want {
			t.Errorf("found %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := repo.Find(ctx, payment.NewID(time.Now())); !errors.Is(err, payment.ErrNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
}

// hostileKeys: different keys have different records.
func hostileKeys(t *testing.T, repo payment.Repository) {
	keys := []string{
		"'; DROP TABLE payments.payments; --", "%", "_", `\`, "$1", "{a,b}", `"`, "NULL", "null", " a", "a ", "a", "A", "~",
		strings.Repeat("x", 255),
	}
	records := make([]payment.Record, len(keys))
	for i, key := range keys {
		records[i] = mustPay(t, repo, key, long)
	}
	for i, key := range keys {
		mustReplay(t, repo, key, records[i])
	}
}

func pages(t *testing.T, repo payment.Repository) {
	const total = 7
	for i := range total {
		mustPay(t, repo, fmt.Sprint("k", i), long)
	}

	seen := map[payment.ID]bool{}
	var after *payment.Position
	for {
		page, err := repo.FindOfRide(t.Context(), "ride", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page {
			if seen[p.ID] || after != nil && p.CreatedAt.After(after.CreatedAt) {
				t.Errorf("%s is there twice or out of order", p.ID)
			}
			seen[p.ID] = true
			after = &payment.Position{CreatedAt: p.CreatedAt, ID: p.ID}
		}
		if len(page) < 3 {
			break
		}
	}

	if len(seen) != total {
		t.Errorf("the pages held %d payments, want %d", len(seen), total)
	}
	if page, err := repo.FindOfRide(t.Context(), "another ride", nil, 1); len(page) != 0 || err != nil {
		t.Errorf("a ride without payments: %+v, %v", page, err)
	}
}

func cleanup(t *testing.T, repo payment.Repository) {
	live := mustPay(t, repo, "live", long)
	for i := range 5 {
		mustPay(t, repo, fmt.Sprint("k", i), instant)
	}
	for _, want := range []int{2, 2, 1, 0} {
		if n, err := repo.DeleteExpired(t.Context(), 2); n != want || err != nil {
			t.Errorf("deleted %d, %v, want %d", n, err, want)
		}
	}
	mustReplay(t, repo, "live", live)
	wantPayments(t, repo, 6)
}

// endedContext: a caller whose context ended before it claimed its key does not pay.
func endedContext(t *testing.T, repo payment.Repository) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, fresh, err := Pay(ctx, repo, "k", long); err == nil {
		t.Errorf("settled with an ended context: fresh %t", fresh)
	}
	wantPayments(t, repo, 0)
}
