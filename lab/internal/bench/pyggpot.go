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
)

// pots puts coins into pots, and takes them out of another one at random.
type pots struct {
	prefix string // of the pots' names
	n      int
	first  int32 // the id of the first pot; the others follow
	bank   int32 // the id of a pot that is full, to draw from
	client *pyggpot.Client
}

func newPyggpot(o Options) suite {
	p := &pots{prefix: benchPrefix(), n: o.Items}
	return suite{
		prepare: p.prepare,
		scenarios: []scenario{
			{
				name: "pgbench-pots", title: "bare pgbench, the statements of a change",
				pgbench: func() string { return fmt.Sprintf(potScript, p.first, p.bank-1) },
			},
			{
				name: "pots", title: fmt.Sprintf("%s pots, %s", format(perSecond, float64(o.Items)), replicas(o.Replicas)),
				baseline: "pgbench-pots", replicas: o.Replicas, drive: p.add(p.n),
			},
			{
				name: "one-pot", title: "one pot, " + replicas(o.Replicas), replicas: o.Replicas, drive: p.add(1),
			},
			{name: "random-10", title: "10 coins at random, one by one", replicas: 1, run: p.draw(10)},
			{name: "random-1e9", title: "10^9 coins at random, one by one", replicas: 1, run: p.draw(1_000_000_000)},
		},
		bars: []bar{
			{"many pots", perSecond, "pots", "pgbench-pots", atLeast, 0.3},
			{"one pot, lost changes", lostChanges, "one-pot", "", atMost, 0},
			{"one pot, p99", p99, "one-pot", "", atMost, 2000},
			{"10^9 coins at random", p50, "random-1e9", "random-10", atMost, 2},
		},
	}
}

// prepare makes the pots and the bank, whose id follows theirs.
func (p *pots) prepare(ctx context.Context, r *runner) error {
	err := row(ctx, r.system.url, fmt.Sprintf(`WITH made AS (
		INSERT INTO pyggpot.pot (pot_name, max_coins) SELECT '%s' || n, %d FROM generate_series(1, %d) AS n RETURNING id
	) SELECT min(id), max(id) FROM made`, p.prefix, math.MaxInt32, p.n+1), &p.first, &p.bank)
	if err != nil {
		return err
	}
	if p.bank-p.first != int32(p.n) {
		return fmt.Errorf("the pots have the ids %d to %d: another client makes pots too", p.first, p.bank)
	}
	p.client = pyggpot.New("http://" + r.system.api[0])
	return p.put(ctx, []*coin.Coins{
		{Kind: coin.Coins_BRONZE, Count: 1e9},
		{Kind: coin.Coins_SILVER, Count: 1e9},
		{Kind: coin.Coins_GOLD, Count: math.MaxInt32 - 2e9},
	})
}

// put puts coins into the bank.
func (p *pots) put(ctx context.Context, coins []*coin.Coins) error {
	_, err := p.client.Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{PotId: p.bank, Coins: coins}))
	if err != nil {
		return fmt.Errorf("put coins back: %w", err)
	}
	return nil
}

// add draws from requests that put a coin into one of the first n pots.
func (p *pots) add(n int) func(r *runner) drive {
	return func(r *runner) drive {
		requests := make([][]byte, n)
		for i := range requests {
			body := fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":1}]}`, p.first+int32(i))
			requests[i] = request(http.MethodPost, coinconnect.CoinAddCoinsProcedure, jsonHeader, body)
		}
		state := func(ctx context.Context) (int64, error) { return p.coins(ctx, r) }
		return drive{Config: load.Config{Requests: requests}, state: state}
	}
}

// coins counts those of the pots, kind by kind; a pot whose own sum differs from that is an error.
func (p *pots) coins(ctx context.Context, r *runner) (n int64, err error) {
	var wrong int
	err = row(ctx, r.system.url, fmt.Sprintf(`SELECT coalesce(sum(c.coins), 0), count(*) FILTER (WHERE c.coins <> p.coins)
		FROM pyggpot.pot AS p
		CROSS JOIN LATERAL (SELECT coalesce(sum(coin_count), 0) AS coins FROM pyggpot.coin WHERE pot_id = p.id) AS c
		WHERE p.id >= %d AND p.id < %d`, p.first, p.bank), &n, &wrong)
	if err == nil && wrong != 0 {
		err = fmt.Errorf("%w: %d pots have a sum that is not that of their kinds", ErrNotExact, wrong)
	}
	return n, err
}

// draw returns a run that takes n coins at random out of a full pot and puts them back, one after the other. Only the
// taking is measured.
func (p *pots) draw(n int32) func(context.Context, *runner) (Result, error) {
	return func(ctx context.Context, r *runner) (Result, error) {
		took := load.NewHistogram()
		for begin := time.Now(); time.Since(begin) < r.options.Duration; {
			from := time.Now()
			drawn, err := p.client.Coin.RemoveCoins(ctx, connect.NewRequest(&coin.RemoveCoinsRequest{PotId: p.bank, Count: n}))
			if err != nil {
				return Result{}, fmt.Errorf("draw coins: %w", err)
			}
			if err := took.RecordValue(int64(time.Since(from))); err != nil {
				return Result{}, fmt.Errorf("record a latency: %w", err)
			}
			if err := p.put(ctx, drawn.Msg.GetCoins()); err != nil {
				return Result{}, err
			}
		}
		return runOfLatency(took), nil
	}
}

// potScript holds the statements of a change, as the service sends them, but that the new counts are the server's to
// work out: pgbench cannot. Where another session has the pot's lease nothing is changed, and pgbench counts it all the
// same.
const potScript = `\set pot random(%d, %d)
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
