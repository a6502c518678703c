package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"connectrpc.com/connect"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/services"
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

var _ = register(services.Pyggpot, kind{
	open: newPots, writes: "update pyggpot.pot", signs: map[string][]string{windowStop: {signTaken}},
	metrics: map[string]string{
		signTaken: `rowlock_lock_conflicts_total{lock="pot",reason="taken_over"}`,
		signStale: `rowlock_lock_conflicts_total{lock="pot",reason="lost"}`,
	},
	mutants: []Mutant{mutant("bug_unfenced", "a lease without its fence", windowStop, linearizable)},
})

// pots adds coins to pots, removes them by kind and at random, and views the pots.
type pots struct {
	site

	api  *api.Client
	keys *keys
}

func newPots(s site) (clients, error) { //nolint:ireturn // one of kinds
	w := &pots{site: s, api: api.New(s.url, rowlock.WithHTTPClient(s.client))}
	w.keys = newKeys(s.prefix, activePots, w.create)
	return w, nil
}

// step changes a random pot or views it.
func (w *pots) step(ctx context.Context, client int, random *rand.Rand) {
	key := w.keys.pick(ctx, random)
	if key == nil {
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

func (w *pots) do(ctx context.Context, client int, key *key, in history.PotInput) services.Outcome {
	op := w.record(client, key.name, in, func() (any, error) { return w.change(ctx, key.id, in) })
	w.keys.note(key, op.Outcome)
	return op.Outcome
}

// change returns the coins that were added or removed, or that are in the pot.
func (w *pots) change(ctx context.Context, id int32, in history.PotInput) (history.Coins, error) {
	switch {
	case in.IsRead():
		return received(w.api.Pot.ViewPot(ctx, connect.NewRequest(&pot.ViewPotRequest{PotId: id})))
	case in.Add != history.Coins{}:
		return received(w.api.Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{PotId: id, Coins: sent(in.Add)})))
	default:
		request := &coin.RemoveCoinsRequest{PotId: id, Count: in.Draw, Coins: sent(in.Remove)}
		return received(w.api.Coin.RemoveCoins(ctx, connect.NewRequest(request)))
	}
}

// kindsOfCoins are in the order of history.Coins.
func kindsOfCoins() []coin.Coins_Kind {
	return []coin.Coins_Kind{coin.Coins_BRONZE, coin.Coins_SILVER, coin.Coins_GOLD}
}

func sent(coins history.Coins) (list []*coin.Coins) {
	for i, kind := range kindsOfCoins() {
		if coins[i] > 0 {
			list = append(list, &coin.Coins{Kind: kind, Count: coins[i]})
		}
	}
	return list
}

// received returns the coins of an answer.
func received[A any, P interface {
	*A
	GetCoins() []*coin.Coins
}](a *connect.Response[A], err error) (coins history.Coins, _ error) {
	if err != nil {
		return coins, err
	}
	for _, one := range P(a.Msg).GetCoins() {
		coins[slices.Index(kindsOfCoins(), one.GetKind())] += one.GetCount()
	}
	return coins, nil
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

// probe reads a page of pots.
func (w *pots) probe(ctx context.Context) error {
	_, err := w.api.Pot.ListPots(ctx, connect.NewRequest(&pot.ListPotsRequest{Page: 1, Limit: 1}))
	return err
}

// settle views every pot.
func (w *pots) settle(ctx context.Context) error {
	return w.keys.each(func(key *key) services.Outcome { return w.do(ctx, -1, key, history.PotInput{}) })
}

// lock locks a pot's row.
func (w *pots) lock(context.Context) fault.Lock {
	return fault.Lock{Statement: fmt.Sprintf(`SELECT FROM pyggpot.pot WHERE pot_name = '%s' FOR UPDATE`, w.keys.first())}
}

// check demands that every pot is linearizable, and that what the database holds is in
// bounds and adds up.
func (w *pots) check(ctx context.Context, f *findings) {
	wrong := f.count(ctx, `SELECT count(*) FROM pyggpot.pot p WHERE coins NOT BETWEEN 0 AND max_coins
		OR coins <> (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin c WHERE c.pot_id = p.id)`)
	f.histories(history.Pots(potSize))
	f.answers()
	f.refusals(api.ErrPotFull)
	f.addf("coins", wrong == 0, "%d pots out of bounds or not the sum of their coins", wrong)
}
