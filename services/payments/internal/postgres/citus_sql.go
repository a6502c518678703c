package postgres

// distribution returns the statements that distribute the schema over a Citus cluster, records and payments by the bare
// key, so that a caller's two places of a key and its payments are on one shard, and the ledger by the processor's key.
// Each unique index has the column that its table is distributed by. That of processor_key thus sees one key's payments
// alone; a processor's key is a digest of the key, and no other key has it.
func distribution() []string {
	return []string{
		`ALTER TABLE payments.idempotency_records ADD COLUMN bare text COLLATE "C"`,
		`UPDATE payments.idempotency_records SET bare = substr(key, strpos(key, E'\n') + 1)`,
		`DROP INDEX payments.idempotency_records_of_caller`,
		`ALTER TABLE payments.idempotency_records ALTER COLUMN bare SET NOT NULL,
			DROP CONSTRAINT idempotency_records_pkey, ADD CONSTRAINT idempotency_records_pkey PRIMARY KEY (bare, key)`,
		`CREATE UNIQUE INDEX ` + ofCallerIndex + ` ON payments.idempotency_records (bare, caller) WHERE caller <> ''`,
		`SELECT create_distributed_table('payments.idempotency_records', 'bare')`,
		`ALTER TABLE payments.payments ADD COLUMN bare text COLLATE "C"`,
		`UPDATE payments.payments SET bare = substr(idempotency_key, strpos(idempotency_key, E'\n') + 1)`,
		`ALTER TABLE payments.payments ALTER COLUMN bare SET NOT NULL,
			DROP CONSTRAINT payments_pkey, ADD CONSTRAINT payments_pkey PRIMARY KEY (bare, id),
			DROP CONSTRAINT payments_processor_key_key,
			ADD CONSTRAINT payments_processor_key_key UNIQUE (bare, processor_key)`,
		`CREATE INDEX payments_id ON payments.payments (id)`,
		`CREATE INDEX payments_processor_key ON payments.payments (processor_key)`,
		`SELECT create_distributed_table('payments.payments', 'bare', colocate_with => 'payments.idempotency_records')`,
		`SELECT create_distributed_table('payments.processor_charges', 'processor_key')`,
	}
}

// The statements of one key, each for one worker as a whole. Citus takes no clock in SET, nor in ON CONFLICT: each
// reads the coordinator's when it begins, before it waits for a row. A claim thus lives shorter by that wait, which is
// at most LOCK_WAIT; its charge is made once whichever request has it, and the fence is claim_id.
const (
	// claimOneSQL claims a record's place as claimSQL does. It returns no row where a live record of another claim stands.
	claimOneSQL = `
INSERT INTO payments.idempotency_records AS r
       (bare, key, caller, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key,
        ride_id, rider_id, amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at,
        created_at)
VALUES ($1, $2, $3, 'PROCESSING', $4, $5, $6, statement_timestamp() + $7 * interval '1 microsecond', $8,
        $9, $10, $11, $12, $13, $14, $15, $16, statement_timestamp() + $17 * interval '1 microsecond',
        statement_timestamp())
ON CONFLICT (bare, key) DO UPDATE
   SET caller = excluded.caller, status = 'PROCESSING',
       request_fingerprint = excluded.request_fingerprint, fingerprint_version = excluded.fingerprint_version,
       payment_id = NULL, response_status = NULL, response_body = NULL,
       claim_id = excluded.claim_id, claimed_until = excluded.claimed_until, processor_key = excluded.processor_key,
       ride_id = excluded.ride_id, rider_id = excluded.rider_id, amount = excluded.amount, currency = excluded.currency,
       card_brand = excluded.card_brand, card_last4 = excluded.card_last4, card_exp_month = excluded.card_exp_month,
       card_exp_year = excluded.card_exp_year, expires_at = excluded.expires_at, created_at = excluded.created_at
 WHERE r.status = 'COMPLETED' AND r.expires_at <= excluded.created_at
    OR r.status = 'PROCESSING' AND r.claim_id = excluded.claim_id
RETURNING r.created_at AS now`

	// placesOneSQL reads what stands in the places of a key, expired or not.
	placesOneSQL = `
SELECT key, caller, status, request_fingerprint, fingerprint_version, payment_id, response_status, response_body,
       claim_id, ` + leftMicros + ` AS left_us,
       status = 'COMPLETED' AND expires_at <= clock_timestamp() AS expired
  FROM payments.idempotency_records AS r
 WHERE bare = $1 AND key IN ($1, $2)`

	// earlierOneSQL counts the payments under a key. It follows the claim, whose row keeps others from settling one.
	earlierOneSQL = `SELECT count(*) FROM payments.payments WHERE bare = $1 AND idempotency_key IN ($1, $2)`

	lookOneSQL = lookSQL + ` AND bare = $2`

	// completeOneSQL completes a record whose fence holds, and returns what its payment needs.
	completeOneSQL = `
UPDATE payments.idempotency_records
   SET status = 'COMPLETED', payment_id = $4, response_status = $5, response_body = $6::text::json
 WHERE bare = $1 AND key = $2 AND status = 'PROCESSING' AND claim_id = $3
RETURNING processor_key, ride_id, rider_id, amount, currency, card_brand, card_last4, card_exp_month, card_exp_year`

	// storedOneSQL reads a record whose fence does not hold. It locks it, so that its commit waits for the standbys.
	storedOneSQL = `
SELECT key, status, payment_id, response_status, response_body
  FROM payments.idempotency_records
 WHERE bare = $1 AND key = $2
   FOR UPDATE`

	payOneSQL = `
INSERT INTO payments.payments (bare, idempotency_key, id, status, decline_code, created_at, processor_key, ride_id,
                               rider_id, amount, currency, card_brand, card_last4, card_exp_month, card_exp_year)
VALUES ($1, $2, $3, CASE WHEN $4 = '' THEN 'SUCCEEDED' ELSE 'DECLINED' END, nullif($4, ''),
        timestamptz 'epoch' + $5 * interval '1 microsecond', $6, $7, $8, $9, $10, $11, $12, $13, $14)`

	takeOverOneSQL = `
UPDATE payments.idempotency_records
   SET claim_id = $4, claimed_until = statement_timestamp() + $5 * interval '1 microsecond',
       expires_at = statement_timestamp() + $6 * interval '1 microsecond', created_at = statement_timestamp()
 WHERE bare = $1 AND key = $2 AND status = 'PROCESSING'
   AND (claim_id = $3 AND claimed_until <= statement_timestamp() OR claim_id = $4)
RETURNING processor_key, created_at AS now`

	giveBackOneSQL = `
UPDATE payments.idempotency_records SET claimed_until = statement_timestamp()
 WHERE bare = $1 AND key = $2 AND status = 'PROCESSING' AND claim_id = $3`

	dropOneSQL = `
DELETE FROM payments.idempotency_records WHERE bare = $1 AND key = $2 AND status = 'PROCESSING' AND claim_id = $3`
)

// The statements of the cleaner and the reconcile loop: one reads over all shards without a lock, and others change
// what was found on one shard each, under the same conditions.
const (
	dueSQL = `
SELECT bare, key, claim_id
  FROM payments.idempotency_records
 WHERE ` + dueCondition + `
 ORDER BY claimed_until
 LIMIT $2`

	takeDueSQL = `
UPDATE payments.idempotency_records
   SET claim_id = $4, claimed_until = statement_timestamp() + $5 * interval '1 microsecond'
 WHERE bare = $1 AND key = $2 AND status = 'PROCESSING' AND claim_id = $3 AND claimed_until <= statement_timestamp()
RETURNING key, processor_key, ride_id, rider_id, amount, currency, card_brand, card_last4, card_exp_month,
          card_exp_year, claimed_until, expires_at`

	expiredKeysSQL = `
SELECT bare, key
  FROM payments.idempotency_records
 WHERE status = 'COMPLETED' AND expires_at <= clock_timestamp()
 ORDER BY expires_at
 LIMIT $1`

	deleteKeysSQL = `
WITH expired AS MATERIALIZED (
    SELECT key
      FROM payments.idempotency_records
     WHERE bare = ANY ($1) AND key = ANY ($2) AND status = 'COMPLETED' AND expires_at <= clock_timestamp()
     ORDER BY key
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM payments.idempotency_records r USING expired e WHERE r.bare = ANY ($1) AND r.key = e.key RETURNING 1
)
SELECT count(*) FROM gone`

	oldChargesSQL = `
SELECT processor_key, created_at
  FROM payments.processor_charges
 WHERE created_at <= clock_timestamp() - $1 * interval '1 microsecond'
   AND (created_at, processor_key) > ($2::timestamptz, $3)
 ORDER BY created_at, processor_key
 LIMIT $4`

	settledChargesSQL = `
SELECT processor_key
  FROM payments.payments
 WHERE processor_key = ANY ($1) AND created_at <= clock_timestamp() - $2 * interval '1 microsecond'`

	deleteChargesSQL = `
WITH settled AS MATERIALIZED (
    SELECT processor_key FROM payments.processor_charges WHERE processor_key = ANY ($1)
     ORDER BY processor_key
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM payments.processor_charges c USING settled s
     WHERE c.processor_key = ANY ($1) AND c.processor_key = s.processor_key RETURNING 1
)
SELECT count(*) FROM gone`
)
