package paymenttest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// mustHold claims a key for a lease, and wakes the next request with the key at once.
func mustHold(t *testing.T, repo payment.Repository, lease time.Duration) payment.Held {
	t.Helper()
	c := NewClaim("k", long)
	c.Lease = lease
	claimed, err := repo.Claim(t.Context(), c)
	if err != nil || claimed.Record != nil {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	claimed.Leave()
	return claimed.Held
}

// takenOver: a claim that ran out goes to the next request, under the same processor's key. The first holder can then
// change nothing and gets the stored record.
func takenOver(t *testing.T, repo payment.Repository) {
	first := mustHold(t, repo, instant)
	other := Other(NewClaim("k", long))
	if _, err := repo.Claim(t.Context(), other); !errors.Is(err, payment.ErrKeyConflict) {
		t.Errorf("another request: %v", err)
	}

	second := mustHold(t, repo, long)
	if !second.TakenOver || second.ProcessorKey != first.ProcessorKey || second.ClaimID == first.ClaimID {
		t.Errorf("%+v was taken over as %+v", first, second)
	}

	// The first holder can no longer do any of this.
	if err := errors.Join(repo.Drop(t.Context(), first), repo.GiveBack(t.Context(), first)); err != nil {
		t.Error(err)
	}
	if r, _, err := repo.Settle(t.Context(), first, NewPayment(first)); !errors.Is(err, payment.ErrOutcomeUnknown) {
		t.Errorf("the first holder settled %+v, %v", r, err)
	}

	stored, fresh, err := repo.Settle(t.Context(), second, NewPayment(second))
	if err != nil || !fresh {
		t.Errorf("settled %+v, fresh %t, %v", stored, fresh, err)
	}

	r, fresh, err := repo.Settle(t.Context(), first, NewPayment(first))
	if err != nil || fresh || !reflect.DeepEqual(r, stored) {
		t.Errorf("the first holder got %+v, fresh %t, %v; want %+v", r, fresh, err, stored)
	}
	mustReplay(t, repo, "k", stored)
	wantPayments(t, repo, 1)
}

// anotherSecret: a request with a fingerprint of another secret waits for the request that holds the key, and takes its
// claim over.
func anotherSecret(t *testing.T, repo payment.Repository) {
	first := mustHold(t, repo, long)
	again := Other(NewClaim("k", long))
	again.Same = func(payment.Fingerprint) (bool, error) { return true, nil }
	claimed := make(chan payment.Claimed, 1)
	go func() {
		c, err := repo.Claim(t.Context(), again)
		if err != nil {
			t.Error(err)
		}
		claimed <- c
	}()
	if err := repo.GiveBack(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if c := <-claimed; !c.Held.TakenOver || c.Held.ProcessorKey != first.ProcessorKey {
		t.Errorf("%+v was taken over as %+v", first, c)
	}
}

// reconciled: a claim that ran out is returned once, with the terms of its payment, and again after it is given back.
func reconciled(t *testing.T, repo payment.Repository) {
	first := mustHold(t, repo, instant)
	overdue := func(after, lease time.Duration) []payment.Overdue {
		t.Helper()
		all, err := repo.Overdue(t.Context(), after, lease, 10)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}

	if all := overdue(long, long); len(all) != 0 {
		t.Errorf("%+v is not yet due", all)
	}
	all := overdue(0, long)
	if len(all) != 1 {
		t.Fatalf("%d are due, want 1", len(all))
	}

	h := all[0].Held
	if all[0].Expired || !h.TakenOver || h.Terms != first.Terms || h.ProcessorKey != first.ProcessorKey ||
		h.ClaimID == first.ClaimID {
		t.Errorf("%+v is due as %+v", first, all[0])
	}
	if all := overdue(0, long); len(all) != 0 {
		t.Errorf("%+v is handed out twice", all)
	}

	if err := repo.GiveBack(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for { // the pause is half of the claim's age
		all = overdue(0, long)
		if len(all) == 1 {
			break
		}
	}

	if r, fresh, err := repo.Settle(t.Context(), all[0].Held, NewPayment(all[0].Held)); err != nil || !fresh {
		t.Errorf("settled %+v, fresh %t, %v", r, fresh, err)
	}
	wantPayments(t, repo, 1)
}

// noCleaners: a cleaner does not delete a claim, even if its record has expired. The processor must be asked first.
func noCleaners(t *testing.T, repo payment.Repository) {
	c := NewClaim("k", instant)
	c.Lease = instant
	if _, err := repo.Claim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if n, err := repo.DeleteExpired(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("the cleaner deleted %d claims, %v", n, err)
	}
	if all, err := repo.Overdue(t.Context(), 0, long, 10); err != nil || len(all) != 1 || !all[0].Expired {
		t.Errorf("overdue are %+v, %v, want the expired claim", all, err)
	}
}

// reconciledAfterATakeover: a claim that took over an old one is due as soon as a claim of an absent key.
func reconciledAfterATakeover(t *testing.T, repo payment.Repository) {
	const age = 200 * time.Millisecond
	due := func() int {
		all, err := repo.Overdue(t.Context(), 0, instant, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	mustHold(t, repo, age)
	for n := 0; n == 0; {
		n = due() // the pause is half of the claim's age
	}
	mustHold(t, repo, instant)
	if n := due(); n != 1 {
		t.Errorf("%d are due after a takeover, want 1", n)
	}
}
