package paymenttest

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// oneOwnerAmong runs n concurrent callers of one key: one owns it, and all get its record.
func oneOwnerAmong(t *testing.T, repo payment.Repository, n int) {
	t.Helper()
	var fresh, charged atomic.Int64
	records := make([]payment.Record, n)
	charge := func(h payment.Held) (payment.Payment, error) {
		charged.Add(1)
		return NewPayment(h), nil
	}

	waittest.Together(t, n, func(i int) error {
		r, owner, err := Settle(t.Context(), repo, NewClaim("k", long), charge)
		if owner {
			fresh.Add(1)
		}
		records[i] = r
		return err
	})

	for _, r := range records {
		if !reflect.DeepEqual(r, records[0]) {
			t.Errorf("two answers to one key:\n%+v\n%+v", r, records[0])
		}
	}
	if charged.Load() != 1 || fresh.Load() != 1 {
		t.Errorf("%d callers charged, %d own the key, want 1", charged.Load(), fresh.Load())
	}
}

func oneOwner(t *testing.T, repo payment.Repository) {
	oneOwnerAmong(t, repo, 50)
	wantPayments(t, repo, 1)
}

func oneOwnerOfExpired(t *testing.T, repo payment.Repository) {
	mustPay(t, repo, "k", instant)
	oneOwnerAmong(t, repo, 20)
	wantPayments(t, repo, 2)
}

// failingOwners: the first owners fail, one after the other; the next one gets the key,
// and stores the only payment.
func failingOwners(t *testing.T, repo payment.Repository) {
	boom := errors.New("boom")
	const callers, failures = 20, 5
	var owners, failed, fresh atomic.Int64

	charge := func(h payment.Held) (payment.Payment, error) {
		if owners.Add(1) <= failures {
			return payment.Payment{}, boom
		}
		return NewPayment(h), nil
	}

	waittest.Together(t, callers, func(int) error {
		_, owner, err := Settle(t.Context(), repo, NewClaim("k", long), charge)
		if owner {
			fresh.Add(1)
		}
		if errors.Is(err, boom) {
			failed.Add(1)
			return nil
		}
		return err
	})

	if failed.Load() != failures || fresh.Load() != 1 {
		t.Errorf("%d failed and %d own the key, want %d and 1", failed.Load(), fresh.Load(), failures)
	}
}

// cleanersAndClaimers: cleaners run while expired keys are claimed. They never delete a
// live key, so each successful claim keeps its record.
func cleanersAndClaimers(t *testing.T, repo payment.Repository) {
	const keys, cleaners = 30, 3
	name := func(i int) string { return fmt.Sprint("k", i) }
	for i := range keys {
		mustPay(t, repo, name(i), instant)
	}

	records := make([]payment.Record, keys)
	waittest.Together(t, keys+cleaners, func(i int) (err error) {
		if i < keys {
			records[i], _, err = Pay(t.Context(), repo, name(i), long)
			return err
		}
		for range 10 {
			_, deleteErr := repo.DeleteExpired(t.Context(), 5)
			err = errors.Join(err, deleteErr)
		}
		return err
	})

	for i := range keys {
		mustReplay(t, repo, name(i), records[i])
	}
	wantPayments(t, repo, 2*keys)
}
