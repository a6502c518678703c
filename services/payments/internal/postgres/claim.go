//go:build !bug_donothing

package postgres

// claimSQL claims keys that are absent or expired, or whose claim is the caller's own: the reply to it was lost. It
// returns no row for another live key, whose row is then locked for the rest of the transaction, so that it can be read
// without a race. clock_timestamp(), because now() stands still while the statement waits for a row.
const claimSQL = `
INSERT INTO payments.idempotency_records AS r (` + claimColumns + `)
` + claimRows + `
ON CONFLICT (key) DO UPDATE
   SET status = 'PROCESSING',
       request_fingerprint = excluded.request_fingerprint, fingerprint_version = excluded.fingerprint_version,
       payment_id = NULL, response_status = NULL, response_body = NULL,
       claim_id = excluded.claim_id, claimed_until = clock_timestamp() + (excluded.claimed_until - excluded.created_at),
       processor_key = excluded.processor_key, ride_id = excluded.ride_id, rider_id = excluded.rider_id,
       amount = excluded.amount, currency = excluded.currency, card_brand = excluded.card_brand,
       card_last4 = excluded.card_last4, card_exp_month = excluded.card_exp_month,
       card_exp_year = excluded.card_exp_year,
       expires_at = clock_timestamp() + (excluded.expires_at - excluded.created_at), created_at = clock_timestamp()
 WHERE r.status = 'COMPLETED' AND r.expires_at <= clock_timestamp()
    OR r.status = 'PROCESSING' AND r.claim_id = excluded.claim_id
RETURNING r.key, clock_timestamp() AS now`
