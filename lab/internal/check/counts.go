package check

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// increases is how many there are at once.
const increases = 100

func counts(ctx context.Context, c *client) (saw string, err error) {
	id := "check-" + rand.Text()
	internal := c.target.Internal + "/api/v1/internal/counts"
	if _, err := c.want(ctx, http.StatusCreated, http.MethodPost, internal, fmt.Sprintf(`{"itemId":%q}`, id)); err != nil {
		return "", err
	}
	defer func() {
		_, gone := c.want(context.WithoutCancel(ctx), http.StatusNoContent, http.MethodDelete, internal+"/"+id, "")
		err = errors.Join(err, gone)
	}()

	values := make([]int64, increases)
	err = together(increases, func(i int) error {
		a, err := c.want(ctx, http.StatusOK, http.MethodPost, c.target.URL+"/api/v1/counts/"+id+"/increase", "")
		if err != nil {
			return err
		}
		var got struct {
			Value int64 `json:"value"`
		}
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			return fmt.Errorf("%s: %w", a.body, err)
		}
		values[i] = got.Value
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(values)
	for i, value := range values {
		if value != int64(i+1) {
			return "", fmt.Errorf("%d increases at once were answered %v, want each of 1 to %d once", increases, values, increases)
		}
	}
	a, err := c.want(ctx, http.StatusOK, http.MethodGet, internal+"/"+id, "")
	if err != nil {
		return "", err
	}
	var stored struct {
		CurrentValue int64 `json:"currentValue"`
	}
	if err := json.Unmarshal([]byte(a.body), &stored); err != nil || stored.CurrentValue != increases {
		return "", fmt.Errorf("after %d increases the count is %s", increases, a.body)
	}
	return fmt.Sprintf("%d increases at once: answered 1 to %d, each once, and the count is %d", increases, increases, increases), nil
}
