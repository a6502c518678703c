package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

var _ = register(targets.Payments, newPayments)

// replayed is how many of the latest keys the replays draw from.
const replayed = 2000

// newPayments pays rides with new keys, and sends the latest of the same requests again.
func newPayments(r *runner) suite {
	const bare, fresh = "pgbench-payment", "new-keys"
	var sent atomic.Int64
	pay := func(next func() int64) drive {
		return drive{
			replicas: 2, Config: load.Config{Next: func() []byte { return payment(next()) }},
			state: number(r.url, `SELECT count(*) FROM payments.payments
				JOIN payments.processor_charges USING (processor_key) WHERE idempotency_key LIKE 'bench-%'`),
		}
	}

	payNew := func() drive { return pay(func() int64 { return sent.Add(1) }) }
	return suite{replicas: 2, connections: 32, prepare: r.paymentTables, scenarios: append([]Scenario{
		{Name: bare, Anchor: true, Title: "bare pgbench, the statements of a payment", run: r.bare(paymentScript)},
		{
			Name: fresh, Title: "new keys, 2 replicas, 32 callers", Baseline: bare, Bars: Figures{perSecond: 0.6},
			run: r.driving(payNew),
		},
		{
			Name: "replays", Title: "replays, 2 replicas, 32 callers", Baseline: bare, Bars: Figures{perSecond: 1.5},
			needs: fresh,
			run: r.driving(func() drive {
				last := sent.Load()
				d := pay(func() int64 { return last - rand.Int64N(min(last, replayed)) })
				d.replay = true
				return d
			}),
		},
		{
			// 256 callers could make 1,280 a second.
			Name: "slow-processor", Title: "a processor of 200 ms, 1 replica, 256 callers",
			Bars: Figures{perSecond: 1050, errorCount: 0},
			run: r.driving(func() drive {
				d := payNew()
				d.replicas, d.Connections = 1, r.pick(256, 32)
				d.environ = map[string]string{"PROCESSOR_LATENCY": "200ms", "DB_MAX_OPEN_CONNS": "8"}
				return d
			}),
		},
	}, r.sweep(paymentScript, r.loaded(r.Service, payNew))...)}
}

// payment returns the i-th request.
func payment(i int64) []byte {
	key := fmt.Sprintf("bench-%07d", i)
	body := `{"ride_id":"ride-` + key + `","rider_id":"rider","amount":1250,"currency":"EUR",` +
		`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}`
	return request(http.MethodPost, "/v1/payments", jsonHeader+"Idempotency-Key: "+key+"\r\n", body)
}

// paymentTables makes the tables of pgbench: the least that an idempotent payment needs.
func (r *runner) paymentTables(ctx context.Context) error {
	return local.Send(ctx, r.url,
		`CREATE SCHEMA rowlock_bench`,
		`CREATE TABLE rowlock_bench.keys (
			key text PRIMARY KEY, status text NOT NULL, response bytea, expires_at timestamptz NOT NULL)`,
		`CREATE TABLE rowlock_bench.payments (
			id uuid PRIMARY KEY, ride_id text NOT NULL, key text NOT NULL, amount bigint NOT NULL)`,
		`CREATE INDEX ON rowlock_bench.payments (ride_id, id)`)
}

// paymentScript claims a new key, stores a payment and its answer of 100 bytes, in one transaction.
const paymentScript = `\set k random(1, 9223372036854775807)
BEGIN;
INSERT INTO rowlock_bench.keys AS r (key, status, expires_at)
VALUES ('pgbench-' || :k, 'PROCESSING', clock_timestamp() + interval '24 hours')
ON CONFLICT (key) DO UPDATE SET status = 'PROCESSING', response = NULL, expires_at = excluded.expires_at
 WHERE r.expires_at <= clock_timestamp();
INSERT INTO rowlock_bench.payments (id, ride_id, key, amount)
VALUES (gen_random_uuid(), 'ride-' || :k, 'pgbench-' || :k, 1250);
UPDATE rowlock_bench.keys SET status = 'COMPLETED', response = decode(repeat('78', 100), 'hex')
 WHERE key = 'pgbench-' || :k;
COMMIT;
`
