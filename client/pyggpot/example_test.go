package pyggpot_test

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
)

func Example() {
	c := pyggpot.New("http://rowlock-pyggpot")
	added, err := c.Coin.AddCoins(context.Background(), connect.NewRequest(&coin.AddCoinsRequest{
		PotId: 1, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 3}},
	}))
	if errors.Is(err, rowlock.ErrPotFull) {
		fmt.Println("they do not fit, and none was added")
		return
	}
	fmt.Println(added.Msg.GetCoins(), err)
}
