package check

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
)

// repeats is how many requests with one key there are at once.
const repeats = 30

func payments(ctx context.Context, c *client) (string, error) {
	ride, key := "check-"+rand.Text(), rand.Text()
	body := fmt.Sprintf(`{"ride_id":%q,"rider_id":"check","amount":1250,"currency":"EUR",`+
		`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}`, ride)
	url := c.target.URL + "/v1/payments"
	answers := make([]answer, repeats)
	err := together(repeats, func(i int) (err error) {
		answers[i], err = c.want(ctx, http.StatusCreated, http.MethodPost, url, body, "Idempotency-Key", key)
		return err
	})
	if err != nil {
		return "", err
	}
	first := 0
	for _, a := range answers {
		if a.body != answers[0].body {
			return "", fmt.Errorf("one key was answered %s and %s", answers[0].body, a.body)
		}
		if a.header.Get("Idempotent-Replayed") == "" {
			first++
		}
	}
	a, err := c.want(ctx, http.StatusOK, http.MethodGet, url+"?ride_id="+ride, "")
	if err != nil {
		return "", err
	}
	var stored struct {
		Payments []json.RawMessage `json:"payments"`
	}
	if err := json.Unmarshal([]byte(a.body), &stored); err != nil || len(stored.Payments) != 1 || first != 1 {
		return "", fmt.Errorf("%d requests with one key: %d were not replays, and the payments are %s", repeats, first, a.body)
	}
	return fmt.Sprintf("%d requests at once with one key: one payment, %d replays, all with the same bytes", repeats, repeats-1), nil
}
