package pyggpot_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/rowlock/rowlock/client/internal/clienttest"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
)

func TestMain(m *testing.M) { os.Exit(clienttest.Main(m, "PYGGPOT_URL")) }

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := pyggpot.New(os.Getenv("PYGGPOT_URL")) // such as http://rowlock-pyggpot
	made, err := c.Pot.CreatePot(ctx, connect.NewRequest(&pot.CreatePotRequest{PotName: "Piggy bank", MaxCoins: 10}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		added, err := c.Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{
			PotId: made.Msg.GetPotId(), Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 7}},
		}))
		switch {
		case errors.Is(err, pyggpot.ErrPotFull):
			fmt.Println("they do not fit, and none was added")
		case err != nil:
			fmt.Println(err)
			return
		default:
			fmt.Println("added", added.Msg.GetCoins()[0].GetCount())
		}
	}
	// Output:
	// added 7
	// they do not fit, and none was added
}
