package bench

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/services"
)

var _ = register(services.Pyggpot, newPyggpot)

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
	const bare, few = "pgbench-pots", "random-10"
	p := &pots{runner: r}
	return suite{replicas: 2, connections: 32, prepare: p.prepare, scenarios: []Scenario{
		{Name: bare, Title: "bare pgbench, the statements of a change", run: r.bare(fmt.Sprintf(potScript, manyPots))},
		{
			Name: "pots", Title: "1,000 pots, 2 replicas", Baseline: bare, Bars: Figures{perSecond: 0.3},
			run: r.driving(func() drive { return p.add(manyPots) }),
		},
		{
			Name: "one-pot", Title: "one pot, 2 replicas", Bars: Figures{lostChanges: 0, p99: 2000},
			run: r.driving(func() drive { return p.add(1) }),
		},
		{Name: few, Title: "10 coins at random, one by one", run: p.draw(10)},
		{
			Name: "random-1e9", Title: "10^9 coins at random, one by one", Baseline: few, Bars: Figures{p50: 2},
			run: p.draw(1_000_000_000),
		},
	}}
}

// prepare makes the pots and the bank.
func (p *pots) prepare(ctx context.Context) error {
	if err := execute(ctx, p.url, fmt.Sprintf(`INSERT INTO pyggpot.pot (pot_name, max_coins)
		SELECT 'bench-' || n, %d FROM generate_series(1, %d) AS n ORDER BY n`, math.MaxInt32, bank)); err != nil {
		return err
	}
	p.client = pyggpot.New("http://" + p.replicas[0].API)
	return p.put(ctx, []*coin.Coins{
		{Kind: coin.Coins_BRONZE, Count: 1e9},
		{Kind: coin.Coins_SILVER, Count: 1e9},
		{Kind: coin.Coins_GOLD, Count: math.MaxInt32 - 2e9},
	})
}

// put puts coins into the bank.
func (p *pots) put(ctx context.Context, coins []*coin.Coins) error {
	_, err := p.client.Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{PotId: bank, Coins: coins}))
	if err != nil {
		return fmt.Errorf("put coins back: %w", err)
	}
	return nil
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
				return 0, fmt.Errorf("draw coins: %w", err)
			}
			took := time.Since(begin)
			return took, p.put(ctx, drawn.Msg.GetCoins())
		})
	}
}

// potScript holds the statements of a change, as the service sends them, but that the new counts are the server's to
// work out: pgbench cannot. Where another session has the pot's lease nothing is changed, and pgbench counts it all the
// same.
const potScript = `\set pot random(1, %d)
\set k random(1, 9223372036854775807)
WITH taken AS (
    UPDATE pyggpot.pot SET lock = md5(:k::text)::uuid,
           lock_expire_time = clock_timestamp() + 10000000 * interval '1 microsecond'
     WHERE id = :pot AND (lock IS NULL OR lock_expire_time <= clock_timestamp())
    RETURNING lock_expire_time
)
SELECT (SELECT lock_expire_time FROM taken) AS expires, lock IS NOT NULL AS expired FROM pyggpot.pot WHERE id = :pot;
BEGIN;
SELECT p.id, p.pot_name, p.max_coins, p.create_time, c.denominations, c.counts
  FROM pyggpot.pot AS p CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(denomination), '{}') AS denominations, coalesce(array_agg(coin_count), '{}') AS counts
         FROM pyggpot.coin WHERE pot_id = p.id AND coin_count > 0) AS c
 WHERE p.id = :pot AND p.lock = md5(:k::text)::uuid AND p.lock_expire_time > clock_timestamp()
   FOR UPDATE OF p;
WITH changed AS (
    INSERT INTO pyggpot.coin AS c (pot_id, denomination, coin_count)
    SELECT :pot, 100, 1 WHERE EXISTS (SELECT FROM pyggpot.pot WHERE id = :pot AND lock = md5(:k::text)::uuid)
    ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = c.coin_count + 1
)
UPDATE pyggpot.pot SET coins = coins + 1, lock = NULL, lock_expire_time = NULL
 WHERE id = :pot AND lock = md5(:k::text)::uuid;
COMMIT;
`
