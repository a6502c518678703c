package prove

import (
	"context"
	"fmt"
	"math/rand/v2"

	"connectrpc.com/connect"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/workload"
	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	// activePots are few: a pot is what the replicas contend for.
	activePots = 6
	// potSize is small, so that pots are full and empty now and then.
	potSize = 60
)

// The signs of pyggpot's windows.
const (
	signTaken = "leases taken over"
	signStale = "stale holders refused"
)

// pots adds coins to pots, removes them by kind and at random, and views the pots.
type pots struct {
	api     *api.Client
	history *history.History
	keys    *keys
}

func newPots(s site) (Workload, error) { //nolint:ireturn // one of kinds
	client := api.New(s.url, rowlock.WithHTTPClient(s.client))
	return &pots{api: client, history: s.history, keys: newKeys(s.prefix, activePots)}, nil
}

// Step changes a random pot or views it.
func (w *pots) Step(ctx context.Context, client int, random *rand.Rand) {
	key := w.keys.pick(random)
	if !key.ensure(func() (int32, error) { return w.create(ctx, key.name) }) {
		return
	}
	some := func() (c history.Coins) {
		for i := range c {
			c[i] = random.Int32N(6)
		}
		c[random.IntN(len(c))]++
		return c
	}
	var in history.PotInput
	switch random.IntN(5) {
	case 0, 1:
		in.Add = some()
	case 2:
		in.Remove = some()
	case 3:
		in.Draw = 1 + random.Int32N(20)
	default:
	}
	w.do(ctx, client, key, in)
}

func (w *pots) do(ctx context.Context, client int, key *key, in history.PotInput) history.Op {
	op := history.Op{Client: client, Key: key.name, Input: in}
	op = send(w.history, op, func() (any, error) { return w.send(ctx, key.id, in) })
	w.keys.note(key, op.Outcome)
	w.history.Add(op)
	return op
}

// send returns the coins that were added or removed, or that are in the pot.
func (w *pots) send(ctx context.Context, id int32, in history.PotInput) (history.Coins, error) {
	switch {
	case in.IsRead():
		a, err := w.api.Pot.ViewPot(ctx, connect.NewRequest(&pot.ViewPotRequest{PotId: id}))
		if err != nil {
			return history.Coins{}, err
		}
		return received(a.Msg.GetCoins()), nil
	case in.Add != history.Coins{}:
		return changed(w.api.Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{PotId: id, Coins: sent(in.Add)})))
	default:
		request := &coin.RemoveCoinsRequest{PotId: id, Count: in.Draw, Coins: sent(in.Remove)}
		return changed(w.api.Coin.RemoveCoins(ctx, connect.NewRequest(request)))
	}
}

func changed(a *connect.Response[coin.CoinsListResponse], err error) (history.Coins, error) {
	if err != nil {
		return history.Coins{}, err
	}
	return received(a.Msg.GetCoins()), nil
}

// kindsOfCoins are in the order of history.Coins.
func kindsOfCoins() [3]coin.Coins_Kind {
	return [3]coin.Coins_Kind{coin.Coins_BRONZE, coin.Coins_SILVER, coin.Coins_GOLD}
}

func sent(coins history.Coins) (list []*coin.Coins) {
	for i, kind := range kindsOfCoins() {
		if coins[i] > 0 {
			list = append(list, &coin.Coins{Kind: kind, Count: coins[i]})
		}
	}
	return list
}

func received(list []*coin.Coins) (coins history.Coins) {
	for _, one := range list {
		for i, kind := range kindsOfCoins() {
			if one.GetKind() == kind {
				coins[i] += one.GetCount()
			}
		}
	}
	return coins
}

// create creates a pot, which may be there when an answer was lost, and returns its id.
func (w *pots) create(ctx context.Context, name string) (int32, error) {
	a, err := w.api.Pot.CreatePot(ctx, connect.NewRequest(&pot.CreatePotRequest{PotName: name, MaxCoins: potSize}))
	if err != nil && !rowlock.NotApplied(err) {
		a, err = w.api.Pot.ViewPotByName(ctx, connect.NewRequest(&pot.ViewPotByNameRequest{PotName: name}))
	}
	if err != nil {
		return 0, err
	}
	return a.Msg.GetPotId(), nil
}

// Probe reads a page of pots.
func (w *pots) Probe(ctx context.Context) error {
	_, err := w.api.Pot.ListPots(ctx, connect.NewRequest(&pot.ListPotsRequest{Page: 1, Limit: 1}))
	return err
}

// Settle views every pot.
func (w *pots) Settle(ctx context.Context) error {
	return w.keys.each(func(key *key) workload.Outcome {
		if key.id == 0 {
			return history.OK // it was not created
		}
		return w.do(ctx, -1, key, history.PotInput{}).Outcome
	})
}

// Lock locks a pot's row.
func (w *pots) Lock(context.Context) fault.Lock {
	return fault.Lock{Statement: fmt.Sprintf(`SELECT FROM pyggpot.pot WHERE pot_name = '%s' FOR UPDATE`, w.keys.first())}
}

// Check demands that every pot is linearizable, and that what the database holds is in
// bounds and adds up.
func (w *pots) Check(ctx context.Context, db *sqldb.DB, pictures string) (Findings, error) {
	ops := w.history.Ops()
	var wrong int
	err := db.GetContext(ctx, &wrong, `SELECT count(*) FROM pyggpot.pot p WHERE coins NOT BETWEEN 0 AND max_coins
		OR coins <> (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin c WHERE c.pot_id = p.id)`)
	if err != nil {
		return Findings{}, fmt.Errorf("read the pots: %w", err)
	}
	return Findings{Checks: []Check{
		checkHistory(history.Pots(potSize), ops, pictures), checkAnswers(ops), checkRefusals(ops, rowlock.ErrPotFull),
		check("coins", wrong == 0, "%d pots out of bounds or not the sum of their coins", wrong),
	}}, nil
}
