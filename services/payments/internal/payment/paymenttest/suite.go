package paymenttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Exercise holds a repository against its port. open returns a repository of its
// own, empty, for each test.
func Exercise(t *testing.T, open func(t *testing.T) payment.Repository) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, payment.Repository){
		"contract/settle and replay":       settleAndReplay,
		"contract/round trip":              roundTrip,
		"contract/hostile keys":            hostileKeys,
		"contract/pages":                   pages,
		"contract/expired counts as new":   expiredCountsAsNew,
		"contract/cleanup":                 cleanup,
		"transactions/error stores none":   errorStoresNothing,
		"transactions/ended context":       endedContext,
		"contention/one owner per key":     oneOwner,
		"contention/one expired key":       oneOwnerOfExpired,
		"contention/failing owners":        failingOwners,
		"contention/keys do not disturb":   manyKeys,
		"contention/cleaners and claimers": cleanersAndClaimers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

const (
	long    = time.Hour
	instant = time.Microsecond // expired when anybody looks again
)

func claim(key payment.Key, ttl time.Duration) payment.Claim {
	sum := sha256.Sum256([]byte(key))
	return payment.Claim{Key: key, Fingerprint: payment.Fingerprint{Sum: sum[:], Version: "test"}, TTL: ttl}
}

// settlement is what an owner of the key may store at its turn.
func settlement(key payment.Key, ride payment.RideID, turn payment.Turn) payment.Settlement {
	id := payment.NewID(turn.Now)
	return payment.Settlement{
		Payment: payment.Payment{
			ID: id, RideID: ride, RiderID: "rider", Amount: payment.MaxAmount, Currency: "EUR", Status: payment.Succeeded,
			Card:      payment.CardFace{Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: 2030},
			CreatedAt: turn.Now,
		},
		ProcessorKey: payment.ProcessorKey(key, turn.Earlier),
		// Bytes that a store which parses and writes JSON anew would change.
		Response: payment.Response{Status: http.StatusCreated, Body: []byte(`{"b":1, "a":[ ],"a":1.50,"id":"` + string(id) + "\"}\n")},
	}
}

func pay(ctx context.Context, repo payment.Repository, key payment.Key, ttl time.Duration) (payment.Record, bool, error) {
	return repo.Settle(ctx, claim(key, ttl), func(_ context.Context, turn payment.Turn) (payment.Settlement, error) {
		return settlement(key, "ride", turn), nil
	})
}

func mustPay(t *testing.T, repo payment.Repository, key payment.Key, ttl time.Duration) payment.Record {
	t.Helper()
	r, fresh, err := pay(t.Context(), repo, key, ttl)
	if err != nil || !fresh {
		t.Fatalf("%.40q: fresh %t, %v", key, fresh, err)
	}
	return r
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// paymentsOf counts the payments of a ride.
func paymentsOf(t *testing.T, repo payment.Repository, ride payment.RideID) int {
	t.Helper()
	page, err := repo.FindOfRide(t.Context(), ride, nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return len(page)
}

func sameRecord(a, b payment.Record) bool {
	return a.PaymentID == b.PaymentID && a.Response.Status == b.Response.Status && bytes.Equal(a.Response.Body, b.Response.Body) &&
		a.Fingerprint.Version == b.Fingerprint.Version && bytes.Equal(a.Fingerprint.Sum, b.Fingerprint.Sum)
}

// together releases n goroutines at once and waits for them.
func together(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-begin
			do(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

func settleAndReplay(t *testing.T, repo payment.Repository) {
	first := mustPay(t, repo, "k", long)
	for range 3 {
		again, fresh, err := pay(t.Context(), repo, "k", long)
		if err != nil || fresh || !sameRecord(first, again) {
			t.Errorf("a repeat: fresh %t, %v\n%+v, want\n%+v", fresh, err, again, first)
		}
	}
	if n := paymentsOf(t, repo, "ride"); n != 1 {
		t.Errorf("%d payments, want 1", n)
	}
}

func roundTrip(t *testing.T, repo payment.Repository) {
	ctx := t.Context()
	for _, decline := range []string{"", "card_declined"} {
		key := payment.Key("key " + decline)
		var want payment.Payment
		_, _, err := repo.Settle(ctx, claim(key, long), func(_ context.Context, turn payment.Turn) (payment.Settlement, error) {
			if turn.Earlier != 0 || time.Since(turn.Now).Abs() > time.Minute || turn.Now.Location() != time.UTC {
				t.Errorf("turn %+v", turn)
			}
			s := settlement(key, "r", turn)
			if decline != "" {
				s.Payment.Status, s.Payment.DeclineCode = payment.Declined, decline
			}
			want = s.Payment
			return s, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := repo.Find(ctx, want.ID); err != nil || got != want {
			t.Errorf("found %+v, %v, want %+v", got, err, want)
		}
	}
	_, err := repo.Find(ctx, payment.NewID(time.Now()))
	wantErr(t, err, payment.ErrNotFound)
}

// hostileKeys must stay apart.
func hostileKeys(t *testing.T, repo payment.Repository) {
	keys := []payment.Key{
		"'; DROP TABLE payments.payments; --", "%", "_", `\`, "$1", "{a,b}", `"`, "NULL", "null", " a", "a ", "a", "A", "~",
		payment.Key(bytes.Repeat([]byte("x"), 255)),
	}
	records := make([]payment.Record, len(keys))
	for i, key := range keys {
		records[i] = mustPay(t, repo, key, long)
	}
	for i, key := range keys {
		if r, fresh, err := pay(t.Context(), repo, key, long); err != nil || fresh || !sameRecord(r, records[i]) {
			t.Errorf("%q: fresh %t, %v", key, fresh, err)
		}
	}
}

func pages(t *testing.T, repo payment.Repository) {
	ctx := t.Context()
	const total = 7
	for i := range total {
		mustPay(t, repo, payment.Key(fmt.Sprint("k", i)), long)
	}
	seen := map[payment.ID]bool{}
	var after *payment.Position
	for {
		page, err := repo.FindOfRide(ctx, "ride", after, 3)
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
	if n := paymentsOf(t, repo, "another ride"); n != 0 {
		t.Errorf("a ride without payments has %d", n)
	}
}

func expiredCountsAsNew(t *testing.T, repo payment.Repository) {
	ctx := t.Context()
	for want := range 3 {
		_, fresh, err := repo.Settle(ctx, claim("k", instant), func(_ context.Context, turn payment.Turn) (payment.Settlement, error) {
			if turn.Earlier != want {
				t.Errorf("%d earlier payments, want %d", turn.Earlier, want)
			}
			return settlement("k", "ride", turn), nil
		})
		if err != nil || !fresh {
			t.Fatalf("fresh %t, %v", fresh, err)
		}
		if want == 1 { // also when the record is gone
			if n, err := repo.DeleteExpired(ctx, 10); n != 1 || err != nil {
				t.Errorf("deleted %d, %v", n, err)
			}
		}
	}
	if n := paymentsOf(t, repo, "ride"); n != 3 {
		t.Errorf("%d payments, want 3", n)
	}
}

func cleanup(t *testing.T, repo payment.Repository) {
	ctx := t.Context()
	live := mustPay(t, repo, "live", long)
	for i := range 5 {
		mustPay(t, repo, payment.Key(fmt.Sprint("k", i)), instant)
	}
	for _, want := range []int{2, 2, 1, 0} {
		if n, err := repo.DeleteExpired(ctx, 2); n != want || err != nil {
			t.Errorf("deleted %d, %v, want %d", n, err, want)
		}
	}
	if r, fresh, err := pay(ctx, repo, "live", long); err != nil || fresh || !sameRecord(r, live) {
		t.Errorf("the live key: fresh %t, %v", fresh, err)
	}
	if n := paymentsOf(t, repo, "ride"); n != 6 {
		t.Errorf("the cleanup left %d payments, want 6", n)
	}
}

func errorStoresNothing(t *testing.T, repo payment.Repository) {
	boom := errors.New("boom")
	for range 2 {
		_, _, err := repo.Settle(t.Context(), claim("k", long), func(context.Context, payment.Turn) (payment.Settlement, error) {
			return payment.Settlement{}, boom
		})
		wantErr(t, err, boom)
	}
	mustPay(t, repo, "k", long)
}

// endedContext: a caller that has gone before its turn must not pay.
func endedContext(t *testing.T, repo payment.Repository) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, fresh, err := pay(ctx, repo, "k", long); err == nil {
		t.Errorf("settled with an ended context: fresh %t", fresh)
	}
	if n := paymentsOf(t, repo, "ride"); n != 0 {
		t.Errorf("%d payments, want none", n)
	}
}
