package drive

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// counters is over how many the increments are spread.
const counters = 20

// counting increases counters by one.
type counting struct{ ids []string }

func (w *counting) prepare(ctx context.Context, c *client) error {
	for range counters {
		id := "drive-" + rand.Text()
		o := c.change(ctx, c.internal+"/api/v1/internal/counts", fmt.Sprintf(`{"itemId":%q}`, id))
		if o.class != acknowledged {
			return fmt.Errorf("create a counter: %s %s", o.said, o.body)
		}
		w.ids = append(w.ids, id)
	}
	return nil
}

func (w *counting) operate(ctx context.Context, c *client, n int) outcome {
	return c.change(ctx, c.api+"/api/v1/counts/"+w.ids[n%counters]+"/increase", "")
}

func (w *counting) stored(ctx context.Context, c *client, _ int) (sum int, err error) {
	answer, err := c.read(ctx, http.MethodGet, c.internal+"/api/v1/internal/counts?itemIds="+strings.Join(w.ids, "&itemIds="), "")
	if err != nil {
		return 0, err
	}
	var values []struct {
		CurrentValue int `json:"currentValue"`
	}
	if err := json.Unmarshal([]byte(answer), &values); err != nil {
		return 0, fmt.Errorf("%s: %w", answer, err)
	}
	for _, v := range values {
		sum += v.CurrentValue
	}
	return sum, nil
}
