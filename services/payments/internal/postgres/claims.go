package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

const (
	// claimColumns are those that a claim writes, in the order of claimRows.
	claimColumns = `key, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key,
       ride_id, rider_id, amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at,
       created_at`

	// claimRows returns a group's rows in the order of their keys, in which every statement locks them. The sub-select
	// reads the clock once, so that the life of a claim can be told from its columns.
	claimRows = `
SELECT c.key, 'PROCESSING', c.fingerprint, c.version, c.claim_id, t.now + c.lease * interval '1 microsecond',
       c.processor_key, c.ride_id, c.rider_id, c.amount, c.currency, c.brand, c.last4, c.month, c.year,
       t.now + c.ttl * interval '1 microsecond', t.now
  FROM unnest($1::text[], $2::bytea[], $3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::text[], $8::text[],
              $9::text[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::smallint[], $15::smallint[])
       AS c (key, fingerprint, version, claim_id, lease, ttl, processor_key, ride_id, rider_id, amount, currency, brand,
             last4, month, year),
       (SELECT clock_timestamp() AS now FROM (SELECT set_config('lock_timeout', $16, true)) AS s) AS t
 ORDER BY c.key COLLATE "C"`

	// earlierSQL counts the payments of keys that have any. It runs after the claim, in a snapshot that sees the payment
	// of the previous owner, for whose transaction the claim has waited.
	earlierSQL = `
SELECT idempotency_key AS key, count(*) AS n
  FROM payments.payments
 WHERE idempotency_key = ANY ($1::text[])
 GROUP BY idempotency_key`

	// processorKeySQL corrects the processor's key of claims that are not the first of their key.
	processorKeySQL = `
UPDATE payments.idempotency_records r
   SET processor_key = c.processor_key
  FROM unnest($1::text[], $2::text[]) AS c (key, processor_key)
 WHERE r.key = c.key`

	// liveSQL reads rows that the claim has locked.
	liveSQL = `
SELECT ` + recordColumns + `
  FROM payments.idempotency_records
 WHERE key = ANY ($1::text[])`

	// lockedSQL locks the rows of a group that are free and returns the keys of the others.
	lockedSQL = `
WITH free AS MATERIALIZED (
    SELECT key FROM payments.idempotency_records WHERE key = ANY ($1::text[]) ORDER BY key FOR UPDATE SKIP LOCKED
)
SELECT key FROM payments.idempotency_records WHERE key = ANY ($1::text[]) AND key NOT IN (SELECT key FROM free)`

	claimStatements = 4
	claimBytes      = 320 // of a claim on the wire, without its key
)

// runClaims claims a group's keys. A key stands in it once: a replica's requests for one key queue.
func (s *Store) runClaims(
	ctx context.Context, p coalesce.Pass, group []payment.Claim,
) ([]coalesce.Answer[state], error) {
	if p.SkipLocked {
		// Rows that are locked are skipped. Those that a replica of an earlier release is inserting, for as long as its
		// processor takes, cannot be.
		return coalesce.Halve(group, func(wait time.Duration, part []payment.Claim) ([]coalesce.Answer[state], error) {
			return s.claimAll(ctx, coalesce.Pass{Wait: wait, SkipLocked: true}, part)
		}), nil
	}
	return s.claimAll(ctx, p, group)
}

// claimAll runs the transaction of a group of claims.
func (s *Store) claimAll(
	ctx context.Context, p coalesce.Pass, group []payment.Claim,
) (answers []coalesce.Answer[state], err error) {
	begin := time.Now()
	err = s.db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		answers, err = claimIn(ctx, tx, p, group)
		return err
	})
	s.options.Contention.Waited(contention.InDatabase, min(time.Since(begin), p.Wait))
	return answers, coalesce.Classify(err)
}

func claimIn(
	ctx context.Context, tx *sqlx.Tx, p coalesce.Pass, group []payment.Claim,
) ([]coalesce.Answer[state], error) {
	answers := make([]coalesce.Answer[state], len(group))
	place := make(map[string]int, len(group))
	keys := make(pq.StringArray, len(group))
	for i, c := range group {
		keys[i], place[string(c.Key)] = string(c.Key), i
	}
	free := group
	if p.SkipLocked {
		var locked []string
		if err := tx.SelectContext(ctx, &locked, lockedSQL, keys); err != nil {
			return nil, fmt.Errorf("lock the records that are there: %w", err)
		}
		for _, key := range locked {
			answers[place[key]].Locked = true
		}
		free = nil
		for i, c := range group {
			if !answers[i].Locked {
				free = append(free, c)
			}
		}
	}
	var claimed []struct {
		Key string    `db:"key"`
		Now time.Time `db:"now"`
	}
	if err := tx.SelectContext(ctx, &claimed, claimSQL, claimArgs(free, p.Wait)...); err != nil {
		return nil, fmt.Errorf("claim the keys: %w", err)
	}
	mine := make(pq.StringArray, len(claimed))
	for i, row := range claimed {
		n := place[row.Key]
		c := group[n]
		mine[i] = row.Key
		answers[n].Value.held = &payment.Held{
			Key: c.Key, ClaimID: c.ID, ProcessorKey: payment.ProcessorKey(c.Key, 0), Terms: c.Terms, Now: row.Now.UTC(),
		}
	}
	if err := correctProcessorKeys(ctx, tx, mine, func(key string) *payment.Held {
		return answers[place[key]].Value.held
	}); err != nil {
		return nil, err
	}
	if len(claimed) == len(free) {
		return answers, nil
	}
	var live []record
	if err := tx.SelectContext(ctx, &live, liveSQL, keys); err != nil {
		return nil, fmt.Errorf("read the live records: %w", err)
	}
	for _, row := range live {
		if a := &answers[place[row.Key]]; a.Value.held == nil && !a.Locked {
			a.Value = state{row: row, found: true}
		}
	}
	return answers, nil
}

// correctProcessorKeys gives claims of keys with earlier payments the processor's key of their turn.
func correctProcessorKeys(
	ctx context.Context, tx *sqlx.Tx, keys pq.StringArray, held func(key string) *payment.Held,
) error {
	var earlier []struct {
		Key string `db:"key"`
		N   int    `db:"n"`
	}
	if err := tx.SelectContext(ctx, &earlier, earlierSQL, keys); err != nil {
		return fmt.Errorf("count the keys' payments: %w", err)
	}
	if len(earlier) == 0 {
		return nil
	}
	var again, processorKeys pq.StringArray
	for _, row := range earlier {
		h := held(row.Key)
		h.ProcessorKey = payment.ProcessorKey(h.Key, row.N)
		again, processorKeys = append(again, row.Key), append(processorKeys, h.ProcessorKey)
	}
	if _, err := tx.ExecContext(ctx, processorKeySQL, again, processorKeys); err != nil {
		return fmt.Errorf("set the processor's keys: %w", err)
	}
	return nil
}

// claimArgs returns the parameters of claimSQL.
func claimArgs(group []payment.Claim, wait time.Duration) []any {
	n := len(group)
	keys, versions, ids, processorKeys := texts(n), texts(n), texts(n), texts(n)
	rides, riders, currencies, brands, last4s := texts(n), texts(n), texts(n), texts(n), texts(n)
	leases, ttls, amounts, months, years := numbers(n), numbers(n), numbers(n), numbers(n), numbers(n)
	sums := make(pq.ByteaArray, n)
	for i, c := range group {
		t := c.Terms
		keys[i], sums[i], versions[i], ids[i] = string(c.Key), c.Fingerprint.Sum, c.Fingerprint.Version, string(c.ID)
		leases[i], ttls[i] = c.Lease.Microseconds(), c.TTL.Microseconds()
		processorKeys[i] = payment.ProcessorKey(c.Key, 0)
		rides[i], riders[i], amounts[i], currencies[i] = string(t.RideID), t.RiderID, t.Amount, string(t.Currency)
		brands[i], last4s[i] = t.Card.Brand, t.Card.Last4
		months[i], years[i] = int64(t.Card.ExpMonth), int64(t.Card.ExpYear)
	}
	return []any{
		keys, sums, versions, ids, leases, ttls, processorKeys, rides, riders, amounts, currencies, brands, last4s, months,
		years, sqldb.Milliseconds(wait),
	}
}

func texts(n int) pq.StringArray  { return make(pq.StringArray, n) }
func numbers(n int) pq.Int64Array { return make(pq.Int64Array, n) }
