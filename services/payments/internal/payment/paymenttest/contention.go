package paymenttest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// race lets n callers settle one key at once and counts the owners.
func race(t *testing.T, repo payment.Repository, key payment.Key, n int) (owners int64) {
	t.Helper()
	var fresh, called atomic.Int64
	records := make([]payment.Record, n)
	together(n, func(i int) {
		r, mine, err := repo.Settle(t.Context(), claim(key, long), func(_ context.Context, turn payment.Turn) (payment.Settlement, error) {
			called.Add(1)
			return settlement(key, "ride", turn), nil
		})
		if err != nil {
			t.Error(err)
		}
		if mine {
			fresh.Add(1)
		}
		records[i] = r
	})
	for _, r := range records {
		if !sameRecord(r, records[0]) {
			t.Errorf("two answers to one key:\n%+v\n%+v", r, records[0])
		}
	}
	if called.Load() != fresh.Load() {
		t.Errorf("%d callers settled, %d own the key", called.Load(), fresh.Load())
	}
	return fresh.Load()
}

func oneOwner(t *testing.T, repo payment.Repository) {
	if n := race(t, repo, "k", 50); n != 1 {
		t.Errorf("%d owners, want 1", n)
	}
	if n := paymentsOf(t, repo, "ride"); n != 1 {
		t.Errorf("%d payments, want 1", n)
	}
}

func oneOwnerOfExpired(t *testing.T, repo payment.Repository) {
	mustPay(t, repo, "k", instant)
	if n := race(t, repo, "k", 20); n != 1 {
		t.Errorf("%d owners, want 1", n)
	}
	if n := paymentsOf(t, repo, "ride"); n != 2 {
		t.Errorf("%d payments, want the old and the new one", n)
	}
}

// failingOwners: the first ones fail, one after the other; whoever comes next gets
// the key, and in the end there is one payment.
func failingOwners(t *testing.T, repo payment.Repository) {
	boom := errors.New("boom")
	const callers, failures = 20, 5
	var turns, failed, fresh atomic.Int64
	together(callers, func(int) {
		_, mine, err := repo.Settle(t.Context(), claim("k", long), func(_ context.Context, turn payment.Turn) (payment.Settlement, error) {
			if turns.Add(1) <= failures {
				return payment.Settlement{}, boom
			}
			return settlement("k", "ride", turn), nil
		})
		switch {
		case errors.Is(err, boom):
			failed.Add(1)
		case err != nil:
			t.Error(err)
		case mine:
			fresh.Add(1)
		}
	})
	if failed.Load() != failures || fresh.Load() != 1 {
		t.Errorf("%d failed and %d own the key, want %d and 1", failed.Load(), fresh.Load(), failures)
	}
}

func manyKeys(t *testing.T, repo payment.Repository) {
	const keys, each = 20, 4
	var fresh atomic.Int64
	together(keys*each, func(i int) {
		_, mine, err := pay(t.Context(), repo, payment.Key(fmt.Sprint("k", i%keys)), long)
		if err != nil {
			t.Error(err)
		}
		if mine {
			fresh.Add(1)
		}
	})
	if fresh.Load() != keys || paymentsOf(t, repo, "ride") != keys {
		t.Errorf("%d owners and %d payments, want %d of each", fresh.Load(), paymentsOf(t, repo, "ride"), keys)
	}
}

// cleanersAndClaimers: N cleaners beside claimers of expired keys. No live key is
// ever deleted, so each claim that succeeded keeps its record.
func cleanersAndClaimers(t *testing.T, repo payment.Repository) {
	ctx := t.Context()
	const keys = 30
	name := func(i int) payment.Key { return payment.Key(fmt.Sprint("k", i)) }
	for i := range keys {
		mustPay(t, repo, name(i), instant)
	}
	records := make([]payment.Record, keys)
	together(keys+3, func(i int) {
		if i >= keys {
			for range 10 {
				if _, err := repo.DeleteExpired(ctx, 5); err != nil {
					t.Error(err)
				}
			}
			return
		}
		r, fresh, err := pay(ctx, repo, name(i), long)
		if err != nil || !fresh {
			t.Errorf("%d: fresh %t, %v", i, fresh, err)
		}
		records[i] = r
	})
	for i := range keys {
		if r, fresh, err := pay(ctx, repo, name(i), long); err != nil || fresh || !sameRecord(r, records[i]) {
			t.Errorf("%d: a live record is gone: fresh %t, %v", i, fresh, err)
		}
	}
	if n := paymentsOf(t, repo, "ride"); n != 2*keys {
		t.Errorf("%d payments, want %d", n, 2*keys)
	}
}
