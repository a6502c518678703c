package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
)

// saver puts coins into pots, and takes them out at random.
type saver struct {
	prefix string // of the pots' names, so that they are new on a database that was benched before
	base   string
	url    string
	pots   int
	first  int // the id of the first pot; the others follow
	bank   int // the id of a pot that is full, to draw from
	client *http.Client
}

func newSaver(replica string, pots int) *saver {
	return &saver{
		prefix: "bench-" + strings.ToLower(rand.Text()[:8]) + "-", base: "http://" + replica, pots: pots,
		client: &http.Client{Timeout: 30 * time.Second},
	}
}

// The draws are compared at these counts.
const (
	fewCoins  = 10
	manyCoins = 1_000_000_000
)

func (b *saver) prepare(ctx context.Context, r *runner) (err error) {
	if r.system.DatabaseURL == "" {
		return errors.New("the bench of pyggpot looks into the database, which has no URL")
	}

	b.url = r.system.DatabaseURL

	if r.hasPGBench() {
		if r.baseline, err = pgbench.NewScript(r.system.PGBench, r.system.DatabaseURL); err != nil {
			return err
		}
	}

	requests := make([][]byte, b.pots)
	for i := range requests {
		requests[i] = b.request("pyggpot.pot.Pot/CreatePot", fmt.Sprintf(`{"pot_name":"%s%05d","max_coins":%d}`, b.prefix, i, math.MaxInt32))
	}

	// One connection: the ids follow each other.
	result, err := load.Once(ctx, load.Config{Targets: r.system.Replicas[:1], Requests: requests, Connections: 1})
	if err != nil {
		return fmt.Errorf("make the pots: %w", err)
	}

	if made := result.Tally.Acknowledged; made != int64(b.pots) {
		return fmt.Errorf("make the pots: %d of %d are there; other answers by status %v, without an answer %v",
			made, b.pots, result.Statuses, result.Failures)
	}

	var last int
	if err := b.query(ctx, `SELECT min(id), max(id) FROM pyggpot.pot WHERE pot_name LIKE $1 || '%'`, &b.first, &last); err != nil {
		return err
	}

	if last-b.first+1 != b.pots {
		return fmt.Errorf("%d pots have the ids %d to %d: somebody else makes pots too", b.pots, b.first, last)
	}

	return b.fillBank(ctx)
}

func (b *saver) fillBank(ctx context.Context) error {
	var made struct {
		PotID int `json:"pot_id"`
	}

	bank := fmt.Sprintf(`{"pot_name":"%sbank","max_coins":%d}`, b.prefix, math.MaxInt32)
	if err := b.call(ctx, "pyggpot.pot.Pot/CreatePot", bank, &made); err != nil {
		return err
	}

	b.bank = made.PotID

	return b.call(ctx, "pyggpot.coin.Coin/AddCoins", fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"BRONZE","count":1000000000},`+
		`{"kind":"SILVER","count":1000000000},{"kind":"GOLD","count":147483647}]}`, b.bank), nil)
}

// The statements of a change, as the service sends them, but that the new counts are the server's to work out: pgbench cannot.
// Where the pot is somebody else's nothing is changed, and pgbench counts it all the same.
const potScript = `\set pot random(%d, %d)
\set k random(1, 9223372036854775807)
WITH taken AS (
    UPDATE pyggpot.pot SET lock = md5(:k::text)::uuid, lock_expire_time = clock_timestamp() + 10000000 * interval '1 microsecond'
     WHERE id = :pot AND (lock IS NULL OR lock_expire_time <= clock_timestamp())
    RETURNING lock_expire_time
)
SELECT (SELECT lock_expire_time FROM taken) AS expires, lock IS NOT NULL AS expired FROM pyggpot.pot WHERE id = :pot;
BEGIN;
SELECT p.id, p.pot_name, p.max_coins, p.create_time, c.denominations, c.counts FROM pyggpot.pot AS p CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(denomination), '{}') AS denominations, coalesce(array_agg(coin_count), '{}') AS counts
         FROM pyggpot.coin WHERE pot_id = p.id AND coin_count > 0) AS c
 WHERE p.id = :pot AND p.lock = md5(:k::text)::uuid AND p.lock_expire_time > clock_timestamp()
   FOR UPDATE OF p;
WITH changed AS (
    INSERT INTO pyggpot.coin AS c (pot_id, denomination, coin_count)
    SELECT :pot, 100, 1 WHERE EXISTS (SELECT FROM pyggpot.pot WHERE id = :pot AND lock = md5(:k::text)::uuid)
    ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = c.coin_count + 1
)
UPDATE pyggpot.pot SET coins = coins + 1, lock = NULL, lock_expire_time = NULL WHERE id = :pot AND lock = md5(:k::text)::uuid;
COMMIT;
`

func (b *saver) runBaseline(ctx context.Context, r *runner, _ scenario) (pgbench.Result, error) {
	return r.baseline.RunScript(ctx, fmt.Sprintf(potScript, b.first, b.first+b.pots-1), r.options.Duration)
}

func (b *saver) run(ctx context.Context, r *runner, s scenario) (Run, error) {
	switch s.name {
	case scenarioFewAtRandom:
		return b.draw(ctx, r.options.Duration, fewCoins)
	case scenarioManyAtRandom:
		return b.draw(ctx, r.options.Duration, manyCoins)
	}

	before, err := b.coins(ctx)
	if err != nil {
		return Run{}, err
	}

	pots := b.pots
	if s.hot {
		pots = 1
	}

	requests := make([][]byte, pots)
	for i := range requests {
		requests[i] = b.request("pyggpot.coin.Coin/AddCoins", fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":1}]}`, b.first+i))
	}

	result, seen, err := r.drive(ctx, r.config(s, requests), s, load.Run)
	if err != nil {
		return Run{}, err
	}

	after, err := b.coins(ctx)
	if err != nil {
		return Run{}, err
	}

	run := runOf(result, seen)
	run.Sum = &SumCheck{Tally: result.Tally, Gained: after - before}

	return run, nil
}

// draw takes n coins at random out of a full pot and puts them back, one after the other. Only the taking is measured.
func (b *saver) draw(ctx context.Context, lasts time.Duration, n int) (Run, error) {
	var removed struct {
		Coins json.RawMessage `json:"coins"`
	}

	took := hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)
	begin := time.Now()

	for time.Since(begin) < lasts {
		from := time.Now()
		if err := b.call(ctx, "pyggpot.coin.Coin/RemoveCoins", fmt.Sprintf(`{"pot_id":%d,"count":%d}`, b.bank, n), &removed); err != nil {
			return Run{}, err
		}

		if err := took.RecordValue(int64(time.Since(from))); err != nil {
			return Run{}, fmt.Errorf("note a latency: %w", err)
		}

		if err := b.call(ctx, "pyggpot.coin.Coin/AddCoins", fmt.Sprintf(`{"pot_id":%d,"coins":%s}`, b.bank, removed.Coins), nil); err != nil {
			return Run{}, err
		}
	}

	latency := latencyOf(took)

	return Run{Summary: Summary{PerSecond: float64(time.Second) / float64(latency.Mean), Latency: latency}, Curve: curveOf(took)}, nil
}

// call calls a procedure and decodes its answer.
func (b *saver) call(ctx context.Context, procedure, body string, answer any) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+"/"+procedure, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}

	request.Header.Set("Content-Type", "application/json")

	response, err := b.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", procedure, err)
	}

	defer func() { err = errors.Join(err, response.Body.Close()) }()

	raw, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", procedure, err)
	}

	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %s: %s", procedure, response.Status, bytes.TrimSpace(raw))
	}

	if answer == nil {
		return nil
	}

	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("%s: %w", procedure, err)
	}

	return nil
}

func (*saver) request(procedure, body string) []byte {
	return fmt.Appendf(nil, "POST /%s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		procedure, len(body), body)
}

// coins counts those of the pots, kind by kind; a pot whose own sum is another one is an error.
func (b *saver) coins(ctx context.Context) (n int64, err error) {
	var wrong int
	if err := b.query(ctx, `SELECT coalesce(sum(c.coins), 0), count(*) FILTER (WHERE c.coins <> p.coins) FROM pyggpot.pot AS p
		CROSS JOIN LATERAL (SELECT coalesce(sum(coin_count), 0) AS coins FROM pyggpot.coin WHERE pot_id = p.id) AS c
		WHERE pot_name LIKE $1 || '%' AND pot_name NOT LIKE '%bank'`, &n, &wrong); err != nil {
		return 0, err
	}

	if wrong != 0 {
		return 0, fmt.Errorf("%w: %d pots have a sum that is not that of their kinds", ErrNotExact, wrong)
	}

	return n, nil
}

// query reads one row about the pots of this bench.
func (b *saver) query(ctx context.Context, statement string, into ...any) (err error) {
	connector, err := pq.NewConnector(b.url)
	if err != nil {
		return errors.New("look into the pots: the database URL cannot be read") // the error may quote the password
	}

	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()

	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("look into the pots: %w", err)
	}

	defer func() { err = errors.Join(err, conn.Close()) }()

	if err := conn.QueryRowContext(ctx, statement, b.prefix).Scan(into...); err != nil {
		return fmt.Errorf("look into the pots: %w", err)
	}

	return nil
}
