package check

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// items are shared by claimers, who take claimSize at a time.
const (
	items     = 200
	claimers  = 8
	claimSize = 7
)

func iidy(ctx context.Context, c *client) (string, error) {
	url := c.target.URL + "/iidy/v1/batch/lists/check-" + rand.Text()
	var lines strings.Builder
	for i := range items {
		_, _ = fmt.Fprintf(&lines, "item-%03d\n", i)
	}
	// Twice at once: what is there is not added again.
	added := make([]string, 2)
	err := together(len(added), func(i int) error {
		a, err := c.want(ctx, http.StatusCreated, http.MethodPost, url, lines.String())
		added[i] = a.body
		return err
	})
	if err != nil {
		return "", err
	}
	var once, twice int
	_, err = fmt.Sscanf(added[0]+added[1], "ADDED %d\nADDED %d\n", &once, &twice)
	if err != nil || once+twice != items {
		return "", fmt.Errorf("two batches of the same %d items were answered %q", items, added)
	}

	var mu sync.Mutex
	claimed := map[string]int{}
	err = together(claimers, func(int) error {
		for {
			a, err := c.want(ctx, http.StatusOK, http.MethodPost, fmt.Sprintf("%s?action=claim&count=%d&lease=60s", url, claimSize), "")
			if err != nil || strings.TrimSpace(a.body) == "" {
				return err
			}
			mu.Lock()
			for line := range strings.Lines(a.body) {
				claimed[strings.Fields(line)[0]]++
			}
			mu.Unlock()
		}
	})
	if err != nil {
		return "", err
	}
	for item, times := range claimed {
		if times != 1 {
			return "", fmt.Errorf("%s was claimed %d times", item, times)
		}
	}
	a, err := c.want(ctx, http.StatusOK, http.MethodDelete, url, lines.String())
	if err != nil {
		return "", err
	}
	if want := fmt.Sprintf("DELETED %d\n", items); len(claimed) != items || a.body != want {
		return "", fmt.Errorf("%d of %d items were claimed, and the end was %q", len(claimed), items, a.body)
	}
	return fmt.Sprintf("%d items, %d claimers at once: each item claimed once", items, claimers), nil
}
