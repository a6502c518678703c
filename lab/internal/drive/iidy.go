package drive

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
)

// iidy adds items to a list.
type iidy struct{ list string }

func (w *iidy) prepare(context.Context, *client) error {
	w.list = "/iidy/v1/lists/drive-" + rand.Text()
	return nil
}

func (w *iidy) operate(ctx context.Context, c *client, n int) outcome {
	return c.change(ctx, fmt.Sprintf("%s%s/item-%d", c.api, w.list, n), "")
}

func (w *iidy) stored(ctx context.Context, c *client, _ int) (int, error) {
	answer, err := c.read(ctx, http.MethodGet, c.api+w.list, "")
	if err != nil {
		return 0, err
	}
	var got struct {
		Items int `json:"items"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		return 0, fmt.Errorf("%s: %w", answer, err)
	}
	return got.Items, nil
}
