package httpapi

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// pots serves pyggpot.pot.Pot.
type pots struct{ *pot.Service }

var _ potconnect.PotHandler = pots{}

// CreatePot creates an empty pot.
func (h pots) CreatePot(
	ctx context.Context, r *connect.Request[potpb.CreatePotRequest],
) (*connect.Response[potpb.PotResponse], error) {
	return potAnswer(h.Create(ctx, r.Msg.GetPotName(), r.Msg.GetMaxCoins()))
}

// ViewPot returns a pot.
func (h pots) ViewPot(
	ctx context.Context, r *connect.Request[potpb.ViewPotRequest],
) (*connect.Response[potpb.PotResponse], error) {
	return potAnswer(h.Find(ctx, pot.ID(r.Msg.GetPotId())))
}

// ViewPotByName returns the pot with a name.
func (h pots) ViewPotByName(
	ctx context.Context, r *connect.Request[potpb.ViewPotByNameRequest],
) (*connect.Response[potpb.PotResponse], error) {
	return potAnswer(h.FindByName(ctx, r.Msg.GetPotName()))
}

// ListPots returns a page of pots.
func (h pots) ListPots(
	ctx context.Context, r *connect.Request[potpb.ListPotsRequest],
) (*connect.Response[potpb.PotListResponse], error) {
	list, total, err := h.List(ctx, r.Msg.GetPage(), r.Msg.GetLimit())
	if err != nil {
		return nil, err
	}

	answer := &potpb.PotListResponse{
		TotalPotCount: int32(total),
		Request:       r.Msg,
		Pots:          make([]*potpb.PotResponse, len(list)),
	}
	for i, p := range list {
		answer.Pots[i] = toPot(p)
	}
	return connect.NewResponse(answer), nil
}

func potAnswer(p pot.Pot, err error) (*connect.Response[potpb.PotResponse], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(toPot(p)), nil
}

// coins serves pyggpot.coin.Coin.
type coins struct{ *pot.Service }

var _ coinconnect.CoinHandler = coins{}

// AddCoins adds coins to a pot.
func (h coins) AddCoins(
	ctx context.Context, r *connect.Request[coin.AddCoinsRequest],
) (*connect.Response[coin.CoinsListResponse], error) {
	return coinsAnswer(h.Change(ctx, pot.Change{Pot: pot.ID(r.Msg.GetPotId()), Add: fromCoins(r.Msg.GetCoins())}))
}

// RemoveCoins removes coins from a pot: of each kind the wanted number or all that the pot has, then count of the
// others at random or all.
func (h coins) RemoveCoins(
	ctx context.Context, r *connect.Request[coin.RemoveCoinsRequest],
) (*connect.Response[coin.CoinsListResponse], error) {
	return coinsAnswer(h.Change(ctx, pot.Change{
		Pot: pot.ID(r.Msg.GetPotId()), Take: fromCoins(r.Msg.GetCoins()), Draw: int64(r.Msg.GetCount()),
	}))
}

func coinsAnswer(moved pot.Contents, err error) (*connect.Response[coin.CoinsListResponse], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&coin.CoinsListResponse{Coins: toCoins(moved)}), nil
}

// fromCoins returns the coins of a request that has passed the contract's rules. Several entries may have the same
// kind.
func fromCoins(list []*coin.Coins) pot.Contents {
	sum := make(pot.Contents, len(list))
	for _, c := range list {
		sum[pot.Kind(c.GetKind())] += int64(c.GetCount())
	}
	return sum
}

// toCoins returns the coins of an answer, kinds ascending. A count never exceeds the size of a pot.
func toCoins(coins pot.Contents) []*coin.Coins {
	list := make([]*coin.Coins, 0, len(coins))
	for _, c := range coins.List() {
		list = append(list, &coin.Coins{Kind: coin.Coins_Kind(c.Kind), Count: int32(c.Count)})
	}
	return list
}

// toPot returns the pot of an answer.
func toPot(p pot.Pot) *potpb.PotResponse {
	return &potpb.PotResponse{
		PotId: int32(p.ID), PotName: p.Name, MaxCoins: p.MaxCoins, CreateTime: timestamppb.New(p.CreateTime),
		Coins: toCoins(p.Contents),
	}
}
