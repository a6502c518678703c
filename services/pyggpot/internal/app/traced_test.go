package app_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/platform/apptest"
)

// TestOperationsAreTraced: with tracing every operation has a span in the caller's trace. lab/observe tests the whole
// tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	r, _ := start(t, spans.Environ())
	pots := potconnect.NewPotClient(spans.Client(), r.API)
	coins := coinconnect.NewCoinClient(spans.Client(), r.API)
	one := []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 1}}
	spans.AreTraced(t, r.Stop, []apptest.Operation{
		{Name: "pyggpot.create", Call: calling(pots.CreatePot, &potpb.CreatePotRequest{PotName: "pot", MaxCoins: 10})},
		{Name: "pyggpot.view", Call: calling(pots.ViewPot, &potpb.ViewPotRequest{PotId: 1})},
		{Name: "pyggpot.view_by_name", Call: calling(pots.ViewPotByName, &potpb.ViewPotByNameRequest{PotName: "pot"})},
		{Name: "pyggpot.list", Call: calling(pots.ListPots, &potpb.ListPotsRequest{Page: 1})},
		{Name: "pyggpot.add", Call: calling(coins.AddCoins, &coin.AddCoinsRequest{PotId: 1, Coins: one})},
		{Name: "pyggpot.remove", Call: calling(coins.RemoveCoins, &coin.RemoveCoinsRequest{PotId: 1, Coins: one})},
	})
}

// calling returns a function that calls a procedure.
func calling[Q, A any](
	procedure func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), request *Q,
) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := procedure(ctx, connect.NewRequest(request))
		return err
	}
}
