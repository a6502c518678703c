package drive

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

const (
	pots     = 10
	potLimit = 1 << 30
	// aborts is how often an operation is tried again whose pot was leased to others all the time.
	aborts = 5
)

// pyggpot puts coins into pots.
type pyggpot struct{ ids []int }

func (w *pyggpot) prepare(ctx context.Context, c *client) error {
	for range pots {
		o := c.change(ctx, c.api+"/pyggpot.pot.Pot/CreatePot",
			fmt.Sprintf(`{"pot_name":"drive%s","max_coins":%d}`, rand.Text(), potLimit))
		var pot struct {
			ID int `json:"pot_id"` //nolint:tagliatelle // the service's name for it
		}
		if err := json.Unmarshal([]byte(o.body), &pot); err != nil || o.class != acknowledged {
			return fmt.Errorf("create a pot: %s %s", o.said, o.body)
		}
		w.ids = append(w.ids, pot.ID)
	}
	return nil
}

func (w *pyggpot) operate(ctx context.Context, c *client, n int) (o outcome) {
	for range aborts {
		o = c.change(ctx, c.api+"/pyggpot.coin.Coin/AddCoins",
			fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":1}]}`, w.ids[n%pots]))
		switch {
		case strings.Contains(o.body, `"code":"aborted"`):
			o.class = notApplied
			continue
		case strings.Contains(o.body, "OUTCOME_UNKNOWN"), strings.Contains(o.body, `"code":"unknown"`):
			o.class = unknown
		}
		break
	}
	return o
}

func (w *pyggpot) stored(ctx context.Context, c *client, _ int) (sum int, err error) {
	for _, id := range w.ids {
		answer, err := c.read(ctx, http.MethodPost, c.api+"/pyggpot.pot.Pot/ViewPot", fmt.Sprintf(`{"pot_id":%d}`, id))
		if err != nil {
			return 0, err
		}
		var pot struct {
			Coins []struct {
				Count int `json:"count"`
			} `json:"coins"`
		}
		if err := json.Unmarshal([]byte(answer), &pot); err != nil {
			return 0, fmt.Errorf("%s: %w", answer, err)
		}
		for _, kind := range pot.Coins {
			sum += kind.Count
		}
	}
	return sum, nil
}
