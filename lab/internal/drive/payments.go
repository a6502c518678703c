package drive

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
)

// payments pays, each time with a key of its own. What was not acknowledged is repeated at the end with its key, as a client would: then
// every key has exactly one payment.
type payments struct {
	ride string

	mu   sync.Mutex
	open []string // keys
	paid int      // how many others there are
}

func (w *payments) prepare(context.Context, *client) error {
	w.ride = "drive-" + rand.Text()
	return nil
}

func (w *payments) pay(ctx context.Context, c *client, key string) outcome {
	body := fmt.Sprintf(`{"ride_id":%q,"rider_id":"drive","amount":1250,"currency":"EUR",`+
		`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}`, w.ride)
	// Written small, the header does not make Go's client repeat a lost request by itself: whether one fails is the question.
	o := c.change(ctx, c.api+"/v1/payments", body, "idempotency-key", key)
	if o.class == wrong && (o.said == "502 PROCESSOR_ERROR" || o.said == "504 PROCESSOR_TIMEOUT") {
		o.class = unknown // the simulated processor keeps its books in the database that goes away
	}
	return o
}

func (w *payments) operate(ctx context.Context, c *client, _ int) outcome {
	key := rand.Text()
	o := w.pay(ctx, c, key)
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.class == acknowledged {
		w.paid++
	} else {
		w.open = append(w.open, key)
	}
	return o
}

// settleTries is how often an open key is repeated.
const settleTries = 20

func (w *payments) stored(ctx context.Context, c *client, _ int) (int, error) {
	for _, key := range w.open {
		for try := 0; ; try++ {
			o := w.pay(ctx, c, key)
			if o.class == acknowledged {
				break
			}
			if try == settleTries {
				return 0, fmt.Errorf("a payment cannot be settled: %s %s", o.said, o.body)
			}
		}
	}
	n := 0
	for after := ""; ; {
		answer, err := c.read(ctx, http.MethodGet, c.api+"/v1/payments?limit=100&ride_id="+w.ride+after, "")
		if err != nil {
			return 0, err
		}
		var page struct {
			Payments  []json.RawMessage `json:"payments"`
			NextAfter string            `json:"next_after"` //nolint:tagliatelle // the service's name for it
		}
		if err := json.Unmarshal([]byte(answer), &page); err != nil {
			return 0, fmt.Errorf("%s: %w", answer, err)
		}
		n += len(page.Payments)
		if page.NextAfter == "" {
			if keys := w.paid + len(w.open); n != keys {
				return 0, fmt.Errorf("%d keys made %d payments", keys, n)
			}
			return w.paid, nil
		}
		after = "&after=" + url.QueryEscape(page.NextAfter)
	}
}
