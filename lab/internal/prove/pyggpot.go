package prove

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"connectrpc.com/connect"
	"github.com/anishathalye/porcupine"
	"github.com/jmoiron/sqlx"

	api "github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

const (
	// activePots are few: a pot is what the replicas contend for.
	activePots = 6
	// potSize is small, so that pots are full and empty now and then.
	potSize = 60
)

// signTaken counts leases that were taken over, by the metric.
const (
	signTaken = "leases taken over"
	takenOver = `rowlock_lock_conflicts_total{lock="pot",reason="taken_over"}`
)

var _ = register(targets.Pyggpot, kind{
	open: newPots, writes: []string{"update pyggpot.pot"}, singles: true, attack: attackPots,
	changes: func(op history.Op) bool {
		in, _ := op.Input.(potInput)
		return !in.isRead()
	},
	signs: map[string][]string{windowStop: {signTaken}, windowHostile: {string(fault.LockedKey), string(fault.Pages)}},
	mutants: []Mutant{
		mutant("unfenced", "a lease without its fence", windowStop, linearizable),
		mutant("laststate", "a group answers all its callers with the last state", windowNone, linearizable),
	},
})

// coins counts coins by kind: bronze, silver, gold.
type coins [3]int32

// sum returns the number of all coins.
func (c coins) sum() int32 { return c[0] + c[1] + c[2] }

// minus takes coins out; false when there are fewer.
func (c coins) minus(taken coins) (coins, bool) {
	for i, n := range taken {
		if n > c[i] {
			return c, false
		}
		c[i] -= n
	}
	return c, true
}

// potInput describes an operation on a pot: add, remove by kind, draw at random, or a
// look when all are zero. The output is coins.
type potInput struct {
	add, remove coins
	draw        int32
}

// isRead reports whether the operation only looks at the pot.
func (in potInput) isRead() bool { return in == potInput{} }

// potModel returns the model of a pot for potSize coins that begins empty. Any coins that
// are there in the right number explain a random draw; a draw of unknown outcome may have
// taken any of them, so many states follow.
func potModel() porcupine.Model { return history.NewModel(coins{}, coins.after) }

// after returns what may be in the pot after the operation.
func (c coins) after(in potInput, op history.Op) []coins {
	out, _ := op.Output.(coins)
	known := op.Outcome == targets.OK
	fits := c.sum()+in.add.sum() <= potSize
	switch {
	case op.Outcome == targets.Refused: // because the pot is full
		return history.When(!fits, c)
	case in.isRead():
		return history.When(out == c, c)
	case in.add != coins{}:
		after := c
		for i, n := range in.add {
			after[i] += n
		}
		if !fits {
			after = c
		}
		return history.When(!known || fits && out == in.add, after)

	case in.draw > 0:
		drawn := min(in.draw, c.sum())
		if !known {
			return c.draws(drawn)
		}
		after, ok := c.minus(out)
		return history.When(ok && out.sum() == drawn, after)

	default:
		taken := coins{}
		for i, n := range in.remove {
			taken[i] = min(n, c[i])
		}
		after, _ := c.minus(taken)
		return history.When(!known || out == taken, after)
	}
}

// draws returns all pots that may be left when n coins are drawn.
func (c coins) draws(n int32) (all []coins) {
	for bronze := int32(0); bronze <= min(n, c[0]); bronze++ {
		for silver := int32(0); silver <= min(n-bronze, c[1]); silver++ {
			if after, ok := c.minus(coins{bronze, silver, n - bronze - silver}); ok {
				all = append(all, after)
			}
		}
	}
	return all
}

// pots adds coins to pots, removes them by kind and at random, and views the pots.
type pots struct {
	*keys

	api   *api.Client
	taken float64 // leases taken over before the window
}

func newPots(ctx context.Context, s site) (clients, error) {
	w := &pots{api: api.New(s.url, targets.Once(s.client)...)}
	w.keys = newKeys(s, activePots, w.create)
	w.taken, _ = s.metric(ctx, takenOver)
	return w, nil
}

// create creates a pot and returns its id.
func (w *pots) create(ctx context.Context, name string) (int32, error) {
	a, err := w.api.Pot.CreatePot(ctx, connect.NewRequest(&pot.CreatePotRequest{PotName: name, MaxCoins: potSize}))
	if err != nil {
		return 0, err
	}
	return a.Msg.GetPotId(), nil
}

// step changes a random pot or views it.
func (w *pots) step(ctx context.Context, client int, random *rand.Rand) {
	key := w.pick(ctx, random)
	if key == nil {
		return
	}
	some := func() (c coins) {
		for i := range c {
			c[i] = random.Int32N(6)
		}
		c[random.IntN(len(c))]++
		return c
	}

	var in potInput
	switch random.IntN(5) {
	case 0, 1:
		in.add = some()
	case 2:
		in.remove = some()
	case 3:
		in.draw = 1 + random.Int32N(20)
	default:
	}

	w.change(ctx, client, key, in)
}

// change adds or removes coins, or views the pot.
func (w *pots) change(ctx context.Context, client int, key *key, in potInput) targets.Outcome {
	return w.do(client, key, in, func() (any, error) {
		switch {
		case in.isRead():
			return received(w.api.Pot.ViewPot(ctx, connect.NewRequest(&pot.ViewPotRequest{PotId: key.id})))
		case in.add != coins{}:
			request := &coin.AddCoinsRequest{PotId: key.id, Coins: sent(in.add)}
			return received(w.api.Coin.AddCoins(ctx, connect.NewRequest(request)))
		default:
			request := &coin.RemoveCoinsRequest{PotId: key.id, Count: in.draw, Coins: sent(in.remove)}
			return received(w.api.Coin.RemoveCoins(ctx, connect.NewRequest(request)))
		}
	})
}

// kindsOfCoins are in the order of coins.
func kindsOfCoins() []coin.Coins_Kind {
	return []coin.Coins_Kind{coin.Coins_BRONZE, coin.Coins_SILVER, coin.Coins_GOLD}
}

func sent(c coins) (list []*coin.Coins) {
	for i, kind := range kindsOfCoins() {
		if c[i] > 0 {
			list = append(list, &coin.Coins{Kind: kind, Count: c[i]})
		}
	}
	return list
}

// received returns the coins of an answer.
func received[A any, P interface {
	*A
	GetCoins() []*coin.Coins
}](a *connect.Response[A], err error) (c coins, _ error) {
	if err != nil {
		return c, err
	}
	for _, one := range P(a.Msg).GetCoins() {
		c[slices.Index(kindsOfCoins(), one.GetKind())] += one.GetCount()
	}
	return c, nil
}

// probe reads a page of pots.
func (w *pots) probe(ctx context.Context) error {
	_, err := w.api.Pot.ListPots(ctx, connect.NewRequest(&pot.ListPotsRequest{Page: 1, Limit: 1}))
	return err
}

// settle views every pot.
func (w *pots) settle(ctx context.Context) error {
	return w.each(func(key *key) targets.Outcome { return w.change(ctx, settling, key, potInput{}) })
}

// lock locks a pot's row.
func (w *pots) lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
	return hold(tx.ExecContext(ctx, `SELECT FROM pyggpot.pot WHERE pot_name = $1 FOR UPDATE`, w.first()))
}

// attackPots has a pot that another holder leases, and reads pages far behind the last pot.
func attackPots(ctx context.Context, v *victim, s site) error {
	w := &pots{api: api.New(s.url, targets.Once(s.client)...)}
	locked, err := w.create(ctx, s.prefix+"-locked")
	if err != nil {
		return err
	}

	crossed, err := w.create(ctx, s.prefix+"-crossed")
	if err != nil {
		return err
	}
	const add, list, last = "/pyggpot.coin.Coin/AddCoins", "/pyggpot.pot.Pot/ListPots", 1 << 30
	v.Change = hostile.Post(add, jsonType, fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":1}]}`, crossed), 0)
	v.Begun, v.Upload = hostile.Post(add, jsonType, `{`, missing), hostile.Post(add, jsonType, `{"pot_id":"`, longBody)
	v.Large = []string{hostile.Post(list, jsonType, `{"page":1,"limit":100}`, 0)}
	v.Bad = []string{
		hostile.Post(add, jsonType, `{"pot_id":`, 0), hostile.Post(add, jsonType, `{"pot_id":-1}`, 0),
		hostile.Post("/pyggpot.pot.Pot/ViewPotByName", jsonType, `{"pot_name":"a\u0000b"}`, 0),
	}

	v.lock = func(ctx context.Context, _ *sqlx.Tx, hold fault.Hold) error {
		// Committed, as the lease of a replica that stalls, and not another holder's.
		return hold(driver.RowsAffected(1), local.Execute(ctx, s.db, fmt.Sprintf(`DO $$ BEGIN LOOP UPDATE pyggpot.pot
			SET lock = gen_random_uuid(), lock_expire_time = clock_timestamp() + %d * interval '1 microsecond'
			WHERE id = %d AND (lock IS NULL OR lock_expire_time <= clock_timestamp());
			EXIT WHEN FOUND; PERFORM pg_sleep(0.002); END LOOP; END $$`, keyLocked.Microseconds(), locked)))
	}

	v.call = func(ctx context.Context) (int64, error) {
		request := &coin.AddCoinsRequest{PotId: locked, Coins: sent(coins{0, 0, 1})}
		_, err := w.api.Coin.AddCoins(ctx, connect.NewRequest(request))
		return 1, err
	}

	v.page = func(ctx context.Context) error {
		_, err := w.api.Pot.ListPots(ctx, connect.NewRequest(&pot.ListPotsRequest{Page: last, Limit: 100}))
		return err
	}
	const held = `SELECT coins FROM pyggpot.pot WHERE id = %d`
	v.stored, v.crossed = fmt.Sprintf(held, locked), fmt.Sprintf(held, crossed)
	return errors.Join(
		local.Execute(ctx, s.db, fmt.Sprintf(`UPDATE pyggpot.pot SET max_coins = %d WHERE id = %d`, last, locked)),
		local.Execute(ctx, s.db, `INSERT INTO pyggpot.pot (pot_name, max_coins)
			SELECT '`+s.prefix+`-' || n, 10 FROM generate_series(1, 5000) n`))
}

// check demands that every pot is linearizable, and that what the database holds is in
// bounds and adds up.
func (w *pots) check(ctx context.Context, f *findings) {
	wrong := f.count(ctx, `SELECT count(*) FROM pyggpot.pot p WHERE coins NOT BETWEEN 0 AND max_coins
		OR coins <> (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin c WHERE c.pot_id = p.id)`)
	f.histories(potModel())
	f.answers(api.ErrPotFull)
	f.addf("coins", wrong == 0, "%d pots out of bounds or not the sum of their coins", wrong)
	taken, _ := w.metric(ctx, takenOver)
	f.signs[signTaken] = int(taken - w.taken)
}
