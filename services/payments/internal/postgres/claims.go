package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// bid asks for a claim of a key, under which so many earlier payments are stored.
type bid struct {
	payment.Claim

	earlier int
}

// claimBytes is the size of a bid on the wire, without its key.
const claimBytes = 320

// claimSQL claims keys that are absent or expired, or whose claim is the caller's own: the reply to it was lost. Of the
// other keys it returns what stands there; of a key with other than c.earlier payments, how many it has. A key of which
// it returns nothing was another transaction's while the statement waited: the next one sees it.
//
// The count is that of the statement's snapshot, and so is the record that it goes with: no key is claimed whose record
// was live in the snapshot. For a payment to be stored meanwhile under a key that is claimed then, a claim would have
// to be made, settled and expire while the statement runs; a key lives longer than two statements may run.
//
// The rows are locked in the order of their keys, as in every statement. clock_timestamp(), because now() stands still
// while the statement waits for a row.
func claimSQL(skipLocked bool, p places) string {
	if skipLocked {
		return "WITH" + p.free() + "," + p.asked() + " AND (NOT there OR key IN (SELECT key FROM free))" + claimTail
	}
	return "WITH" + p.asked() + claimTail
}

// free locks the rows that are free.
func (p places) free() string {
	return ` free AS MATERIALIZED (
    SELECT key FROM payments.idempotency_records WHERE key = ANY (` + p.all + `) ORDER BY key FOR UPDATE SKIP LOCKED
)`
}

// asked reads the clock once for each row, so that the life of a claim can be told from its columns.
func (p places) asked() string {
	return ` asked AS MATERIALIZED (
    SELECT c.n, ` + p.name + ` AS key, ` + p.caller + ` AS caller, c.fingerprint, c.version, c.claim_id, c.lease, c.ttl,
           c.processor_key, c.ride_id, c.rider_id, c.amount, c.currency, c.brand, c.last4, c.month, c.year, c.earlier,
           l.now, r.key IS NOT NULL AS there, l.live, r.status, r.request_fingerprint, r.fingerprint_version,
           r.payment_id, r.response_status, r.response_body, r.claim_id AS other_id, ` + leftMicros + ` AS left_us,
           CASE WHEN NOT l.live
                THEN (SELECT count(*) FROM payments.payments p WHERE p.idempotency_key ` + p.stored + `)
                END AS found_earlier
      FROM unnest($1::text[], $2::bytea[], $3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::text[], $8::text[],
                  $9::text[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::smallint[], $15::smallint[],
                  $16::int[]` + p.arrays + `)
           WITH ORDINALITY AS c (key, fingerprint, version, claim_id, lease, ttl, processor_key, ride_id, rider_id,
                                 amount, currency, brand, last4, month, year, earlier` + p.columns + `, n)` + p.join + `
      LEFT JOIN payments.idempotency_records r ON r.key = ` + p.name + `
     CROSS JOIN LATERAL (
         SELECT clock_timestamp() AS now, r.key IS NOT NULL AND NOT (` + expired + `
                                           OR r.status = 'PROCESSING' AND r.claim_id IS NOT DISTINCT FROM c.claim_id)
                AS live
     ) AS l
     WHERE (SELECT set_config('lock_timeout', $17, true)) IS NOT NULL
), claimed AS (
    INSERT INTO payments.idempotency_records AS r
           (key, caller, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key,
            ride_id, rider_id, amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at,
            created_at)
    SELECT key, caller, 'PROCESSING', fingerprint, version, claim_id, now + lease * interval '1 microsecond',
           processor_key, ride_id, rider_id, amount, currency, brand, last4, month, year,
           now + ttl * interval '1 microsecond', now
      FROM asked
     WHERE NOT live AND found_earlier = earlier`
}

const claimTail = `
     ORDER BY key COLLATE "C"
    ON CONFLICT (key) DO UPDATE
       SET caller = excluded.caller, status = 'PROCESSING',
           request_fingerprint = excluded.request_fingerprint, fingerprint_version = excluded.fingerprint_version,
           payment_id = NULL, response_status = NULL, response_body = NULL,
           claim_id = excluded.claim_id,
           claimed_until = clock_timestamp() + (excluded.claimed_until - excluded.created_at),
           processor_key = excluded.processor_key, ride_id = excluded.ride_id, rider_id = excluded.rider_id,
           amount = excluded.amount, currency = excluded.currency, card_brand = excluded.card_brand,
           card_last4 = excluded.card_last4, card_exp_month = excluded.card_exp_month,
           card_exp_year = excluded.card_exp_year,
           expires_at = clock_timestamp() + (excluded.expires_at - excluded.created_at), created_at = clock_timestamp()
     WHERE ` + expired + ` OR r.status = 'PROCESSING' AND r.claim_id = excluded.claim_id
    RETURNING r.key, clock_timestamp() AS now
)
SELECT a.n, a.key, claimed.now, a.live, a.there, a.found_earlier AS earlier, coalesce(a.status, '') AS status,
       a.request_fingerprint, coalesce(a.fingerprint_version, '') AS fingerprint_version, a.payment_id,
       a.response_status, a.response_body, a.other_id AS claim_id, a.left_us,
       ` + sqldb.SynchronousSQL + ` AS unconfirmed
  FROM asked a
  LEFT JOIN claimed ON claimed.key = a.key`

// runClaims claims a group's keys. A caller's key stands in it once: a replica's requests for one queue.
func (s *Store) runClaims(ctx context.Context, p coalesce.Pass, group []bid) ([]coalesce.Answer[state], error) {
	if p.SkipLocked {
		// Rows that are locked are skipped. Those that a replica of an earlier release is inserting, for as long as its
		// processor takes, cannot be.
		return coalesce.Halve(group, func(wait time.Duration, part []bid) ([]coalesce.Answer[state], error) {
			return s.claimAll(ctx, coalesce.Pass{Wait: wait, SkipLocked: true}, part)
		}), nil
	}
	return s.claimAll(ctx, p, group)
}

// claimAll runs the statement of a group of claims.
func (s *Store) claimAll(ctx context.Context, p coalesce.Pass, group []bid) ([]coalesce.Answer[state], error) {
	type row struct {
		record

		N       int           `db:"n"`
		Now     sql.NullTime  `db:"now"`
		Live    bool          `db:"live"`
		There   bool          `db:"there"`
		Earlier sql.NullInt64 `db:"earlier"`
	}
	answers := make([]coalesce.Answer[state], len(group))
	for i, c := range group {
		answers[i].Value.earlier = c.earlier
	}
	where, sent := placesOf(group)
	begin := time.Now()
	rows, err := once[row](ctx, s.db, claimSQL(p.SkipLocked, where), claimArgs(group, sent, where, p.Wait)...)
	s.options.Contention.Waited(contention.InDatabase, min(time.Since(begin), p.Wait))
	switch {
	case len(group) == 1 && inOtherPlace(err):
		answers[0].Locked = true // the next statement finds it
		return answers, nil
	case err != nil:
		return nil, coalesce.Classify(err)
	}
	for _, row := range rows {
		a, c := &answers[sent[row.N-1]], group[sent[row.N-1]]
		switch {
		case row.Now.Valid:
			a.Value.held = &payment.Held{
				Record: row.Name, ClaimID: c.ID, ProcessorKey: payment.ProcessorKey(c.Key, c.earlier), Terms: c.Terms,
				Now: row.Now.Time.UTC(),
			}
		case row.Live:
			a.Value = state{row: row.record, found: true}
		default:
			a.Value.earlier = int(row.Earlier.Int64)
			a.Locked = p.SkipLocked && row.There && a.Value.earlier == c.earlier
		}
	}
	return answers, nil
}

// claimArgs returns the parameters of claimSQL, for the bids of a group with these indexes.
func claimArgs(group []bid, sent []int, where places, wait time.Duration) []any {
	n := len(sent)
	keys, versions, ids, processorKeys := texts(n), texts(n), texts(n), texts(n)
	rides, riders, currencies, brands, last4s := texts(n), texts(n), texts(n), texts(n), texts(n)
	leases, ttls, amounts, months, years, earlier := numbers(n), numbers(n), numbers(n), numbers(n), numbers(n), numbers(n)
	sums, callers, own := make(pq.ByteaArray, n), texts(n), texts(n)
	for i, index := range sent {
		c := group[index]
		t := c.Terms
		keys[i], callers[i], own[i] = c.Key.Value, c.Key.Caller, ownRecord(c.Key)
		sums[i], versions[i], ids[i] = c.Fingerprint.Sum, c.Fingerprint.Version, string(c.ID)
		leases[i], ttls[i], earlier[i] = c.Lease.Microseconds(), c.TTL.Microseconds(), int64(c.earlier)
		processorKeys[i] = payment.ProcessorKey(c.Key, c.earlier)
		rides[i], riders[i], amounts[i], currencies[i] = string(t.RideID), t.RiderID, t.Amount, string(t.Currency)
		brands[i], last4s[i] = t.Card.Brand, t.Card.Last4
		months[i], years[i] = int64(t.Card.ExpMonth), int64(t.Card.ExpYear)
	}
	args := []any{
		keys, sums, versions, ids, leases, ttls, processorKeys, rides, riders, amounts, currencies, brands, last4s, months,
		years, earlier, sqldb.Milliseconds(wait),
	}
	if where.arrays != "" {
		args = append(args, callers, own)
	}
	return args
}

func texts(n int) pq.StringArray  { return make(pq.StringArray, n) }
func numbers(n int) pq.Int64Array { return make(pq.Int64Array, n) }
