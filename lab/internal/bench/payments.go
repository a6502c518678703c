package bench

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/services"
)

var _ = register(services.Payments, newPayments)

// replayed is how many of the latest keys the replays draw from.
const replayed = 2000

// newPayments pays rides with new keys, and sends the latest of the same requests again.
func newPayments(r *runner) suite {
	const bare, fresh = "pgbench-payment", "new-keys"
	var sent atomic.Int64
	pay := func(replay bool, next func() int64) drive {
		return drive{
			replicas: 2, replay: replay, Config: load.Config{Next: func() []byte { return payment(next()) }},
			state: number(r.url, `SELECT count(*) FROM payments.payments
				JOIN payments.processor_charges USING (processor_key) WHERE idempotency_key LIKE 'bench-%'`),
		}
	}
	return suite{replicas: 2, connections: 32, scenarios: []Scenario{
		{Name: bare, Title: "bare pgbench, the statements of a payment", run: r.bare(paymentScript)},
		{
			Name: fresh, Title: "new keys, 2 replicas", Baseline: bare, Bars: Figures{perSecond: 0.4},
			run: r.driving(func() drive { return pay(false, func() int64 { return sent.Add(1) }) }),
		},
		{
			Name: "replays", Title: "replays, 2 replicas", Baseline: fresh, Bars: Figures{perSecond: 3}, needs: fresh,
			run: r.driving(func() drive {
				last := sent.Load()
				return pay(true, func() int64 { return last - rand.Int64N(min(last, replayed)) })
			}),
		},
	}}
}

// payment returns the i-th request.
func payment(i int64) []byte {
	key := fmt.Sprintf("bench-%07d", i)
	body := `{"ride_id":"ride-` + key + `","rider_id":"rider","amount":1250,"currency":"EUR",` +
		`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}`
	return request(http.MethodPost, "/v1/payments", jsonHeader+"Idempotency-Key: "+key+"\r\n", body)
}

// paymentScript is what a payment with a new key asks of the database, on the service's own tables. The ledger's commit
// comes before the transaction and not within it, because a client of pgbench has one connection; it costs the same.
const paymentScript = `\set k random(1, 9223372036854775807)
SELECT status, request_fingerprint, fingerprint_version, payment_id, response_status, response_body
  FROM payments.idempotency_records
 WHERE key = 'pgbench-' || :k AND status = 'COMPLETED' AND expires_at > clock_timestamp();
INSERT INTO payments.processor_charges AS c
       (processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version)
VALUES (lpad('pgbench-' || :k, 64, '0'), 1250, 'EUR', decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'),
        'pgbench')
ON CONFLICT (processor_key) DO UPDATE SET processor_key = c.processor_key
RETURNING amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, (xmax = 0) AS fresh;
BEGIN;
SELECT set_config('lock_timeout', '3000', true), set_config('idle_in_transaction_session_timeout', '8000', true);
INSERT INTO payments.idempotency_records AS r (key, status, request_fingerprint, fingerprint_version, expires_at)
VALUES ('pgbench-' || :k, 'PROCESSING', decode(repeat('00', 32), 'hex'), 'pgbench',
        clock_timestamp() + 86400000000 * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE
   SET status = 'PROCESSING', request_fingerprint = excluded.request_fingerprint,
       fingerprint_version = excluded.fingerprint_version,
       payment_id = NULL, response_status = NULL, response_body = NULL,
       expires_at = clock_timestamp() + 86400000000 * interval '1 microsecond', created_at = clock_timestamp()
 WHERE r.expires_at <= clock_timestamp()
RETURNING clock_timestamp();
SELECT count(*) FROM payments.payments WHERE idempotency_key = 'pgbench-' || :k;
WITH paid AS (
    INSERT INTO payments.payments (id, idempotency_key, processor_key, ride_id, rider_id, amount, currency, status,
                                   decline_code, card_brand, card_last4, card_exp_month, card_exp_year, created_at)
    VALUES (gen_random_uuid(), 'pgbench-' || :k, lpad('pgbench-' || :k, 64, '0'), 'pgbench-' || :k, 'rider', 1250,
            'EUR', 'SUCCEEDED', NULL, 'visa', '4242', 12, 2099, clock_timestamp())
    RETURNING id
)
UPDATE payments.idempotency_records
   SET status = 'COMPLETED', payment_id = (SELECT id FROM paid), response_status = 201,
       response_body = json_build_object('id', repeat('x', 260))
 WHERE key = 'pgbench-' || :k AND status = 'PROCESSING';
COMMIT;
`
