package bench

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

var _ = register(targets.Pyggpot, newPyggpot)

// The ids of the pots are 1 to manyPots in a new database. The next one is the bank, a full pot to draw from.
const (
	manyPots = 1000
	bank     = manyPots + 1
)

// pots puts coins into pots, and takes them out of another one at random.
type pots struct {
	*runner

	client *pyggpot.Client
}

func newPyggpot(r *runner) suite {
	const barePots, barePot, few = "pgbench-pots", "pgbench-pot", "random-10"
	p := &pots{runner: r}
	add := func() drive { return p.add(manyPots) }
	return suite{replicas: 2, connections: 32, prepare: p.prepare, scenarios: append([]Scenario{
		{Name: barePots, Anchor: true, Title: "bare pgbench, updates of 1,000 rows", run: r.bare(potScript(manyPots))},
		{
			Name: "pots", Title: "1,000 pots, 2 replicas, 32 callers", Baseline: barePots,
			Bars: Figures{perSecond: 0.3}, run: r.driving(add),
		},
		{Name: barePot, Anchor: true, Title: "bare pgbench, updates of one row", run: r.bare(potScript(1))},
		{
			Name: "one-pot", Title: "one pot, 2 replicas, 32 callers", Baseline: barePot,
			Bars: Figures{perSecond: 2, p99: 100}, run: r.driving(func() drive { return p.add(1) }),
		},
		{Name: few, Title: "10 coins at random, one by one", run: p.draw(10)},
		{
			Name: "random-1e9", Title: "10^9 coins at random, one by one", Baseline: few, Bars: Figures{p50: 2},
			run: p.draw(1_000_000_000),
		},
	}, r.sweep(potScript(manyPots), r.loaded(r.Service, add))...)}
}

// prepare makes the table of pgbench, the pots and the bank.
func (p *pots) prepare(ctx context.Context) error {
	if err := p.coinTable(ctx); err != nil {
		return err
	}
	if err := local.Send(ctx, p.url, fmt.Sprintf(`INSERT INTO pyggpot.pot (pot_name, max_coins)
		SELECT 'bench-' || n, %d FROM generate_series(1, %d) AS n ORDER BY n`, math.MaxInt32, bank)); err != nil {
		return err
	}
	p.client = pyggpot.New("http://"+p.replicas[0].API, rowlock.WithoutRetries())
	return p.put(ctx, []*coin.Coins{
		{Kind: coin.Coins_BRONZE, Count: 1e9},
		{Kind: coin.Coins_SILVER, Count: 1e9},
		{Kind: coin.Coins_GOLD, Count: math.MaxInt32 - 2e9},
	})
}

// put puts coins into the bank.
func (p *pots) put(ctx context.Context, coins []*coin.Coins) error {
	_, err := p.client.Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{PotId: bank, Coins: coins}))
	return err
}

// add draws from requests that put a coin into one of the first n pots. It counts the coins kind by kind: pots whose
// own sum differs from that count as a loss.
func (p *pots) add(n int) drive {
	requests := make([][]byte, n)
	for i := range requests {
		body := fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":1}]}`, 1+i)
		requests[i] = request(http.MethodPost, coinconnect.CoinAddCoinsProcedure, jsonHeader, body)
	}
	return drive{replicas: 2, Config: load.Config{Next: load.Draw(requests)}, state: number(p.url, fmt.Sprintf(`
		SELECT CASE WHEN bool_or(c.coins <> p.coins) THEN -1 ELSE sum(c.coins) END FROM pyggpot.pot AS p
		CROSS JOIN LATERAL (SELECT coalesce(sum(coin_count), 0) AS coins FROM pyggpot.coin WHERE pot_id = p.id) AS c
		WHERE p.id < %d`, bank))}
}

// draw returns a run that takes n coins at random out of a full pot and puts them back, one after the other. Only the
// taking is measured.
func (p *pots) draw(n int32) func(context.Context) (Result, error) {
	return func(ctx context.Context) (Result, error) {
		return p.oneByOne(func() (time.Duration, error) {
			begin := time.Now()
			drawn, err := p.client.Coin.RemoveCoins(ctx, connect.NewRequest(&coin.RemoveCoinsRequest{PotId: bank, Count: n}))
			if err != nil {
				return 0, err
			}
			took := time.Since(begin)
			return took, p.put(ctx, drawn.Msg.GetCoins())
		})
	}
}

// coinTable makes the table of pgbench.
func (r *runner) coinTable(ctx context.Context) error {
	return local.Send(ctx, r.url,
		`CREATE SCHEMA rowlock_bench`,
		`CREATE TABLE rowlock_bench.coin (pot_id bigint PRIMARY KEY, n bigint NOT NULL)`,
		fmt.Sprintf(`INSERT INTO rowlock_bench.coin SELECT n, 0 FROM generate_series(1, %d) AS n`, manyPots),
		`VACUUM (ANALYZE) rowlock_bench.coin`)
}

// potScript adds a coin to one of the first pots, without a lease or a bound.
func potScript(pots int) string {
	return fmt.Sprintf("\\set i random(1, %d)\nUPDATE rowlock_bench.coin SET n = n + 1 WHERE pot_id = :i;\n", pots)
}
