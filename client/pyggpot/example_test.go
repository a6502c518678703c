package pyggpot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"connectrpc.com/connect"

	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
)

// coins stands in for the service: all coins fit.
type coins struct {
	coinconnect.UnimplementedCoinHandler
}

func (coins) AddCoins(
	_ context.Context, request *connect.Request[coin.AddCoinsRequest],
) (*connect.Response[coin.CoinsListResponse], error) {
	return connect.NewResponse(&coin.CoinsListResponse{Coins: request.Msg.GetCoins()}), nil
}

func Example() {
	_, handler := coinconnect.NewCoinHandler(coins{})
	service := httptest.NewServer(handler)
	defer service.Close()

	c := pyggpot.New(service.URL)
	added, err := c.Coin.AddCoins(context.Background(), connect.NewRequest(&coin.AddCoinsRequest{
		PotId: 1, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 3}},
	}))
	switch {
	case errors.Is(err, pyggpot.ErrPotFull):
		fmt.Println("they do not fit, and none was added")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(added.Msg.GetCoins()[0].GetCount())
	}
	// Output: 3
}
