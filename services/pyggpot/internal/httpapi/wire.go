package httpapi

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// fromCoins returns the coins of a request that has passed the contract's rules.
func fromCoins(list []*coin.Coins) []pot.Coins {
	coins := make([]pot.Coins, len(list))
	for i, c := range list {
		coins[i] = pot.Coins{Kind: pot.Kind(c.GetKind()), Count: int64(c.GetCount())}
	}
	return coins
}

// toCoins returns the coins of an answer. A count never exceeds the size of a pot.
func toCoins(coins []pot.Coins) []*coin.Coins {
	list := make([]*coin.Coins, len(coins))
	for i, c := range coins {
		list[i] = &coin.Coins{Kind: coin.Coins_Kind(c.Kind), Count: int32(c.Count)} //nolint:gosec // see above
	}
	return list
}

// toPot returns the pot of an answer.
func toPot(p pot.Pot) *potpb.PotResponse {
	return &potpb.PotResponse{
		PotId: int32(p.ID), PotName: p.Name, MaxCoins: p.MaxCoins, CreateTime: timestamppb.New(p.CreateTime),
		Coins: toCoins(p.Contents.List()),
	}
}
