package check

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// hands put coins into a pot and take some out at the same time.
const (
	hands    = 20
	coinsIn  = 5
	coinsOut = 3
	potLimit = 1000
	// tries is how often a hand tries again when the pot's lease was taken all the time (aborted, which asks for it).
	tries = 10
)

// coins are as the service shows them.
type coins struct {
	Coins []struct {
		Count int `json:"count"`
	} `json:"coins"`
}

func (c coins) sum() (n int) {
	for _, kind := range c.Coins {
		n += kind.Count
	}
	return n
}

func pyggpot(ctx context.Context, c *client) (string, error) {
	var pot struct {
		ID int `json:"pot_id"`
	}
	name := "check" + rand.Text()
	if err := c.call(ctx, "pot.Pot/CreatePot", fmt.Sprintf(`{"pot_name":%q,"max_coins":%d}`, name, potLimit), &pot); err != nil {
		return "", err
	}
	taken := make([]int, hands)
	err := together(hands, func(i int) error {
		var in, out coins
		body := fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":%d},{"kind":"BRONZE","count":%d}]}`, pot.ID, coinsIn, coinsIn)
		if err := c.call(ctx, "coin.Coin/AddCoins", body, &in); err != nil {
			return err
		}
		if in.sum() != 2*coinsIn {
			return fmt.Errorf("adding %d coins added %d", 2*coinsIn, in.sum())
		}
		err := c.call(ctx, "coin.Coin/RemoveCoins", fmt.Sprintf(`{"pot_id":%d,"count":%d}`, pot.ID, coinsOut), &out)
		taken[i] = out.sum()
		return err
	})
	if err != nil {
		return "", err
	}
	left := hands * 2 * coinsIn
	for _, n := range taken {
		if n != coinsOut {
			return "", fmt.Errorf("taking %d coins out of a full pot took %d", coinsOut, n)
		}
		left -= n
	}
	var now coins
	if err := c.call(ctx, "pot.Pot/ViewPot", fmt.Sprintf(`{"pot_id":%d}`, pot.ID), &now); err != nil {
		return "", err
	}
	if now.sum() != left {
		return "", fmt.Errorf("%d coins went in, %d came out, and %d are left", hands*2*coinsIn, hands*coinsOut, now.sum())
	}
	return fmt.Sprintf("%d hands at once in one pot: %d coins in, %d out, %d left", hands, hands*2*coinsIn, hands*coinsOut, left), nil
}

// call is a method by plain JSON.
func (c *client) call(ctx context.Context, method, body string, into any) error {
	url := c.target.URL + "/pyggpot." + method
	a, err := c.send(ctx, http.MethodPost, url, body)
	for try := 1; err == nil && strings.Contains(a.body, `"aborted"`) && try < tries; try++ {
		a, err = c.send(ctx, http.MethodPost, url, body)
	}
	switch {
	case err != nil:
		return err
	case a.status != http.StatusOK:
		return fmt.Errorf("%s: %d %s", url, a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		return fmt.Errorf("%s answered %s: %w", url, a.body, err)
	}
	return nil
}
