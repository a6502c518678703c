package bench

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
)

// payer pays rides with new keys, and sends the same requests again.
type payer struct {
	prefix string // of the keys, so that they are new on a database that was benched before
	sent   int
	url    string
}

func newPayer() *payer { return &payer{prefix: "bench-" + strings.ToLower(rand.Text()[:8]) + "-"} }

const (
	// replayed is how many of the latest keys the replays draw from.
	replayed = 2000
	// calibrating is how many payments tell how many a run needs.
	calibrating = 500
)

func (p *payer) prepare(_ context.Context, r *runner) (err error) {
	if r.system.DatabaseURL == "" {
		return errors.New("the bench of payments looks into the database, which has no URL")
	}

	p.url = r.system.DatabaseURL

	if r.hasPGBench() {
		r.baseline, err = pgbench.NewScript(r.system.PGBench, r.system.DatabaseURL)
	}

	return err
}

// paymentScript is what a payment with a new key asks of the database, on the service's own tables. The ledger's commit comes before the
// transaction and not within it, because a client of pgbench has one connection; it costs the same.
const paymentScript = `\set k random(1, 9223372036854775807)
SELECT status, request_fingerprint, fingerprint_version, payment_id, response_status, response_body FROM payments.idempotency_records
 WHERE key = 'pgbench-' || :k AND status = 'COMPLETED' AND expires_at > clock_timestamp();
INSERT INTO payments.processor_charges AS c (processor_key, amount, currency, card_fingerprint, fingerprint_version)
VALUES (lpad('pgbench-' || :k, 64, '0'), 1250, 'EUR', decode(repeat('00', 32), 'hex'), 'pgbench')
ON CONFLICT (processor_key) DO UPDATE SET processor_key = c.processor_key
RETURNING amount, currency, card_fingerprint, fingerprint_version, (xmax = 0) AS fresh;
BEGIN;
SELECT set_config('lock_timeout', '3000', true), set_config('idle_in_transaction_session_timeout', '8000', true);
INSERT INTO payments.idempotency_records AS r (key, status, request_fingerprint, fingerprint_version, expires_at)
VALUES ('pgbench-' || :k, 'PROCESSING', decode(repeat('00', 32), 'hex'), 'pgbench',
        clock_timestamp() + 86400000000 * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE
   SET status = 'PROCESSING', request_fingerprint = excluded.request_fingerprint, fingerprint_version = excluded.fingerprint_version,
       payment_id = NULL, response_status = NULL, response_body = NULL,
       expires_at = clock_timestamp() + 86400000000 * interval '1 microsecond', created_at = clock_timestamp()
 WHERE r.expires_at <= clock_timestamp()
RETURNING clock_timestamp();
SELECT count(*) FROM payments.payments WHERE idempotency_key = 'pgbench-' || :k;
WITH paid AS (
    INSERT INTO payments.payments (id, idempotency_key, processor_key, ride_id, rider_id, amount, currency, status, decline_code,
                                   card_brand, card_last4, card_exp_month, card_exp_year, created_at)
    VALUES (gen_random_uuid(), 'pgbench-' || :k, lpad('pgbench-' || :k, 64, '0'), 'pgbench-' || :k, 'rider', 1250, 'EUR', 'SUCCEEDED', NULL,
            'visa', '4242', 12, 2099, clock_timestamp())
    RETURNING id
)
UPDATE payments.idempotency_records
   SET status = 'COMPLETED', payment_id = (SELECT id FROM paid), response_status = 201,
       response_body = json_build_object('id', repeat('x', 260))
 WHERE key = 'pgbench-' || :k AND status = 'PROCESSING';
COMMIT;
`

func (*payer) runBaseline(ctx context.Context, r *runner, _ scenario) (pgbench.Result, error) {
	return r.baseline.RunScript(ctx, paymentScript, r.options.Duration)
}

func (p *payer) run(ctx context.Context, r *runner, s scenario) (Run, error) {
	before, err := p.settled(ctx)
	if err != nil {
		return Run{}, err
	}

	pay := p.fresh
	if s.name == scenarioReplays {
		pay = p.again
	}

	run, tally, err := pay(ctx, r, s)
	if err != nil {
		return Run{}, err
	}

	after, err := p.settled(ctx)
	if err != nil {
		return Run{}, err
	}

	run.Sum = &SumCheck{Tally: tally, Gained: after - before}

	return run, nil
}

// fresh pays with new keys, each once: as many as the replicas manage in the duration, as far as a short run before can tell.
func (p *payer) fresh(ctx context.Context, r *runner, s scenario) (Run, load.Tally, error) {
	warm, err := load.Once(ctx, r.config(s, p.requests(calibrating)))
	if err != nil {
		return Run{}, load.Tally{}, fmt.Errorf("warm up: %w", err)
	}

	cfg := r.config(s, p.requests(max(calibrating, int(warm.Throughput()*r.options.Duration.Seconds()))))
	cfg.Warmup = 0

	result, seen, err := r.drive(ctx, cfg, s, load.Once)
	if err != nil {
		return Run{}, load.Tally{}, err
	}

	tally := result.Tally
	tally.Acknowledged += warm.Tally.Acknowledged
	tally.Unknown += warm.Tally.Unknown

	return runOf(result, seen), tally, nil
}

// again sends the latest requests again. Whatever is acknowledged must have been paid before, so nothing is to be gained.
func (p *payer) again(ctx context.Context, r *runner, s scenario) (Run, load.Tally, error) {
	if p.sent == 0 {
		return Run{}, load.Tally{}, errors.New("replays need the new keys before them")
	}

	first := max(0, p.sent-replayed)
	requests := make([][]byte, 0, p.sent-first)

	for i := first; i < p.sent; i++ {
		requests = append(requests, p.request(i))
	}

	result, seen, err := r.drive(ctx, r.config(s, requests), s, load.Run)
	if err != nil {
		return Run{}, load.Tally{}, err
	}

	return runOf(result, seen), load.Tally{Unknown: result.Tally.Unknown}, nil
}

// requests makes n with new keys.
func (p *payer) requests(n int) [][]byte {
	requests := make([][]byte, n)
	for i := range requests {
		requests[i] = p.request(p.sent)
		p.sent++
	}

	return requests
}

func (p *payer) request(i int) []byte {
	key := fmt.Sprintf("%s%07d", p.prefix, i)
	body := fmt.Sprintf(`{"ride_id":%q,"rider_id":"rider","amount":1250,"currency":"EUR",`+
		`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}`, "ride-"+key)

	return fmt.Appendf(nil, "POST /v1/payments HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\n"+
		"Content-Length: %d\r\n\r\n%s", key, len(body), body)
}

// settled counts the payments of this bench that have a charge behind them.
func (p *payer) settled(ctx context.Context) (n int64, err error) {
	connector, err := pq.NewConnector(p.url)
	if err != nil {
		return 0, errors.New("count the payments: the database URL cannot be read") // the error may quote the password
	}

	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()

	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("count the payments: %w", err)
	}

	defer func() { err = errors.Join(err, conn.Close()) }()

	if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM payments.payments JOIN payments.processor_charges USING (processor_key)
		WHERE idempotency_key LIKE $1 || '%'`, p.prefix).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the payments: %w", err)
	}

	return n, nil
}
