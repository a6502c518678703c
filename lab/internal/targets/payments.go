package targets

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/payments"
)

// Payments names the service.
const Payments = "payments"

var _ = register(Service{
	Name: Payments, Image: "rowlock/payments", Port: 8082,
	Engines: []string{PostgreSQL}, SecondPool: 2,
	Environ: map[string]string{"FINGERPRINT_SECRET": "a secret of the lab, long enough"}, Secret: "FINGERPRINT_SECRET",
	Try: `curl -si -H 'Content-Type: application/json' -H 'Idempotency-Key: try-1' URL/v1/payments` +
		` -d '{"ride_id":"ride-1","rider_id":"rider-1","amount":1250,"currency":"EUR",` +
		`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}'`,
	TryPrints: []string{`"status":"SUCCEEDED"`, "Idempotent-Replayed: true"},
	Asks:      []string{"'URL/v1/payments?ride_id=ride-1'"},
}, openPayments)

// paying pays one ride, each time with a new key, and repeats an earlier request before, which must be answered as it
// was. What was not acknowledged is repeated at the end with its key, as a client would: then every key has exactly one
// payment.
type paying struct {
	api  *payments.Client
	ride string

	mu   sync.Mutex
	open []string // keys
	paid []paid   // the others
	err  error
}

// paid is a request that was answered.
type paid struct {
	key  string
	made payments.Payment
}

func openPayments(t Target, options []rowlock.Option) (*paying, error) {
	api, err := payments.New(t.URL, options...)
	return &paying{api: api}, err
}

// Ride returns a payment of 12.50 euros that the simulated processor accepts.
func Ride(ride string) payments.NewPayment {
	return payments.NewPayment{
		RideID: ride, RiderID: "lab", Amount: 1250, Currency: "EUR",
		Card: payments.NewCard{Number: "4242424242424242", ExpMonth: 12, ExpYear: 2099, CVC: "123"},
	}
}

// repeats is how many requests with one key are sent at once.
const repeats = 30

func (w *paying) check(ctx context.Context) (string, error) {
	ride, key := "check-"+rand.Text(), rand.Text()
	made := make([]payments.Payment, repeats)
	var first atomic.Int64
	err := together(repeats, func(i int) error {
		p, replayed, err := w.api.Create(ctx, key, Ride(ride))
		made[i] = p
		if err == nil && !replayed {
			first.Add(1)
		}
		return err
	})
	if err != nil {
		return "", err
	}

	for _, p := range made {
		if p != made[0] {
			return "", fmt.Errorf("one key was answered %+v and %+v", made[0], p)
		}
	}

	stored, _, err := w.api.List(ctx, ride, repeats, "")
	if err != nil {
		return "", err
	}
	if len(stored) != 1 || first.Load() != 1 {
		return "", fmt.Errorf("%d requests with one key: %d were not replays, and %d payments are stored",
			repeats, first.Load(), len(stored))
	}
	return fmt.Sprintf("%d requests at once with one key: one payment, %d replays, all with the same answer",
		repeats, repeats-1), nil
}

func (w *paying) prepare(context.Context) error { //nolint:unparam // others prepare by requests
	w.ride = "drive-" + rand.Text()
	return nil
}

func (w *paying) operate(ctx context.Context, n int) error {
	if err := w.repeat(ctx, n); err != nil {
		return err
	}
	key := rand.Text()
	p, _, err := w.api.Create(ctx, key, Ride(w.ride))
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.paid = append(w.paid, paid{key, p})
	} else {
		w.open = append(w.open, key)
	}
	return err
}

// repeat sends a request again that was answered when the load was half as old.
func (w *paying) repeat(ctx context.Context, n int) error {
	w.mu.Lock()
	if len(w.paid) == 0 {
		w.mu.Unlock()
		return nil
	}
	earlier := w.paid[n/2%len(w.paid)]
	w.mu.Unlock()
	p, replayed, err := w.api.Create(ctx, earlier.key, Ride(w.ride))
	if err == nil && (!replayed || p != earlier.made) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = fmt.Errorf("one key was answered %+v and then %+v", earlier.made, p)
	}
	return err
}

func (w *paying) stored(ctx context.Context) (int, error) {
	for _, key := range w.open {
		_, err := retry(ctx, func(ctx context.Context) (payments.Payment, error) {
			p, _, err := w.api.Create(ctx, key, Ride(w.ride))
			return p, err
		})
		if err != nil {
			return 0, fmt.Errorf("a payment has no answer in the end: %w", err)
		}
	}

	n, next := 0, ""
	for after, more := "", true; more; after, more = next, next != "" {
		page, err := retry(ctx, func(ctx context.Context) (page []payments.Payment, err error) {
			const most = 100
			page, next, err = w.api.List(ctx, w.ride, most, after)
			return page, err
		})
		if err != nil {
			return 0, err
		}
		n += len(page)
	}

	if keys := len(w.paid) + len(w.open); n != keys {
		return 0, fmt.Errorf("%d keys made %d payments", keys, n)
	}
	return len(w.paid), w.err
}

func (w *paying) rows() Rows {
	return Rows{
		Stored: `SELECT count(*) FROM payments.payments WHERE ride_id = $1`,
		Lock:   `SELECT FROM payments.idempotency_records WHERE ride_id = $1 FOR UPDATE`,
		Args:   []any{w.ride},
	}
}
