package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// bid asks for a claim of a key.
type bid struct {
	payment.Claim

	// same is the fingerprint that the record of the same request has: another one than the claim's when it was made
	// under the previous secret.
	same []byte
	// earlier is how many payments are stored under the key.
	earlier int
}

// size returns the bytes that a bid takes on the wire.
func (b bid) size() int {
	const others = 320
	return others + len(b.Key.Value) + len(b.Key.Caller)
}

// reply is the answer to a bid, of which one member is set: the claim, what another request has stored, or how many
// payments are stored under the key when they are not as many as the bid said.
type reply struct {
	Claim   *claim  `json:"claim"`
	Record  *record `json:"record"`
	Earlier int     `json:"earlier"`
}

// claim is a claim that was made, or taken over from another request.
type claim struct {
	Caller       string    `json:"caller"` // of the record
	ProcessorKey string    `json:"processor_key"`
	Now          time.Time `json:"now"`
	TakenOver    bool      `json:"taken_over"`
}

// Claim implements payment.Repository. While another request of the same content holds the key, the bid waits in the
// key's lane.
func (s *Store) Claim(ctx context.Context, c payment.Claim) (payment.Claimed, error) {
	b := bid{Claim: c, same: c.Fingerprint.Sum}
	for {
		r, err := s.bid(ctx, b)
		switch {
		case err != nil:
			return payment.Claimed{}, err
		case r.Claim != nil:
			return s.hold(c, *r.Claim), nil
		case r.Record == nil:
			b.earlier = r.Earlier
			continue
		}

		same, err := c.Same(payment.Fingerprint{Sum: r.Record.Fingerprint, Version: r.Record.Version})
		switch {
		case err != nil:
			return payment.Claimed{}, err
		case !same:
			return payment.Claimed{}, payment.ErrKeyConflict
		case r.Record.Status == completed:
			return payment.Claimed{Record: r.Record.domain()}, nil
		}
		b.same = r.Record.Fingerprint // now it waits
	}
}

// bid sends a bid. Its errors say that nothing was charged, whether the claim is stored or not.
func (s *Store) bid(ctx context.Context, b bid) (reply, error) {
	r, err := s.claims.Do(ctx, b)
	if errors.Is(err, groupcommit.ErrUnknown) {
		// The client left while the bid was under way. Its claim, if there is one, must not be left without its payment.
		r, err = s.claims.Do(context.WithoutCancel(ctx), b)
		if r.Claim != nil {
			r.Claim.TakenOver = true // by the first sending, perhaps
		}
	}

	if errors.Is(err, groupcommit.ErrLocked) {
		return reply{}, payment.ErrProcessing
	}
	if e, ours := errors.AsType[*sqldb.Error](err); ours {
		known := *e
		known.Outcome = sqldb.NotApplied
		return reply{}, &known
	}
	return r, err
}

// hold returns what the holder of a claim gets.
func (s *Store) hold(c payment.Claim, made claim) payment.Claimed {
	if made.TakenOver {
		s.options.Contention.Conflict(contention.TakenOver)
	}
	failpoint.Hit(failpoint.Claimed)
	return payment.Claimed{
		Held: payment.Held{
			Key: payment.Key{Caller: made.Caller, Value: c.Key.Value}, ClaimID: c.ID, ProcessorKey: made.ProcessorKey,
			Terms: c.Terms, Now: made.Now.UTC(), TakenOver: made.TakenOver,
		},
		Leave: func() { s.claims.Freed(c.Key) },
	}
}

// expired says of a record that its life is over, so that its key counts as new.
const expired = `r.status = 'COMPLETED' AND r.expires_at <= clock_timestamp()`

// claimSQL claims keys that are absent or expired, and takes over claims of the same request that ran out, or are the
// bid's own, which was sent before and not answered for. A key with other than c.earlier payments is not claimed. A key
// that another request of the same content has claimed gets null, and so does one that another session was quicker to
// change: the next statement sees what it is.
//
// A caller without a live record of its own is answered by the key's live record without a caller (place). A claim that
// is taken over keeps its fingerprint and the processor's key.
//
// The count is of the statement's snapshot, and so is the record that it goes with (asked): no key is claimed whose
// record was live in the snapshot. For a payment to be stored meanwhile under a key that is claimed then, a claim would
// have to be made, settled and expire while the statement runs; a key lives longer than two statements may run.
//
// Where no key is to be claimed the statement locks and writes nothing, so that a repeat costs no commit. It does write
// where records are to be confirmed by a synchronous standby, because the wait of their settlement may have been
// cancelled.
//
// Rows are locked in the order of their keys. clock_timestamp(), because now() stands still while a statement waits.
func claimSQL(skipLocked bool) string {
	if skipLocked {
		return claimHead + claimFree + claimMade + ` AND (absent OR n IN (SELECT n FROM free))` + claimTail
	}
	return claimHead + claimMade + claimTail
}

const (
	claimHead = `
WITH asked AS MATERIALIZED (
    SELECT c.caller, c.key, c.same, c.claim_id, c.lease, c.ttl, c.ride_id, c.rider_id, c.amount, c.currency,
           c.brand, c.last4, c.month, c.year, c.earlier, c.n, place.caller AS place, r.key IS NULL AS absent, r.status,
           state.now, state.new, state.own, r.claim_id <> c.claim_id AS taken_over,
           CASE WHEN state.own THEN r.request_fingerprint ELSE c.fingerprint END AS fingerprint,
           CASE WHEN state.own THEN r.fingerprint_version ELSE c.version END AS fingerprint_version,
           CASE WHEN state.own THEN r.processor_key ELSE c.processor_key END AS processor_key,
           row_number() OVER (PARTITION BY c.key, place.caller ORDER BY c.n) = 1 AS first,
           CASE WHEN state.new THEN (SELECT count(*) FROM payments.payments p
                                      WHERE p.idempotency_key = c.key AND p.caller = c.caller) END AS stored,
           CASE WHEN NOT state.new AND (r.status = 'COMPLETED' OR r.request_fingerprint <> c.same)
                THEN ` + recordJSON + ` END AS record
      FROM unnest($4::text[], $5::text[], $6::bytea[], $7::text[], $8::bytea[], $9::uuid[], $10::bigint[],
                  $11::bigint[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::text[], $17::text[],
                  $18::text[], $19::smallint[], $20::smallint[], $21::int[])
           WITH ORDINALITY AS c (caller, key, fingerprint, version, same, claim_id, lease, ttl, processor_key, ride_id,
                                 rider_id, amount, currency, brand, last4, month, year, earlier, n)
     CROSS JOIN LATERAL (
         SELECT CASE WHEN c.caller <> ''
                      AND EXISTS (SELECT FROM payments.idempotency_records r
                                   WHERE r.key = c.key AND r.caller = '' AND NOT (` + expired + `))
                      AND NOT EXISTS (SELECT FROM payments.idempotency_records r
                                       WHERE r.key = c.key AND r.caller = c.caller AND NOT (` + expired + `))
                     THEN '' ELSE c.caller END AS caller
     ) AS place
      LEFT JOIN payments.idempotency_records r ON r.key = c.key AND r.caller = place.caller
     CROSS JOIN LATERAL (
         SELECT clock_timestamp() AS now, r.key IS NULL OR ` + expired + ` AS new,
                coalesce(` + takenOver + `, false) AS own
     ) AS state
), need AS MATERIALIZED (
    SELECT coalesce(bool_or(first AND (own OR stored = earlier)
                            OR status = 'COMPLETED' AND ` + sqldb.SynchronousSQL + `), false) AS changes
      FROM asked
), slot AS MATERIALIZED (
    SELECT id, clock_timestamp() AS since
      FROM payments.slots
     WHERE id = $1
       AND attempt = $2 - 1
       AND (SELECT changes FROM need)
       AND (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
       FOR UPDATE
)`

	// claimFree locks the rows that are free.
	claimFree = `, free AS MATERIALIZED (
    SELECT c.n
      FROM asked c
      JOIN payments.idempotency_records r ON r.key = c.key AND r.caller = c.place
     WHERE EXISTS (SELECT FROM slot) AND c.first AND (c.own OR c.stored = c.earlier)
     ORDER BY r.key, r.caller
       FOR UPDATE OF r SKIP LOCKED
)`

	claimMade = `, made AS (
    INSERT INTO payments.idempotency_records AS r
           (key, caller, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key,
            ride_id, rider_id, amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at,
            created_at)
    SELECT key, place, 'PROCESSING', fingerprint, fingerprint_version, claim_id,
           now + lease * interval '1 microsecond', processor_key, ride_id, rider_id, amount, currency, brand, last4,
           month, year, now + ttl * interval '1 microsecond', now
      FROM asked
     WHERE EXISTS (SELECT FROM slot) AND first AND (own OR stored = earlier)`

	claimTail = `
     ORDER BY key, place
    ON CONFLICT (key, caller) DO UPDATE
       SET status = 'PROCESSING', request_fingerprint = excluded.request_fingerprint,
           fingerprint_version = excluded.fingerprint_version, payment_id = NULL, response_status = NULL,
           response_body = NULL, claim_id = excluded.claim_id,
           claimed_until = clock_timestamp() + (excluded.claimed_until - excluded.created_at),
           processor_key = excluded.processor_key, ride_id = excluded.ride_id, rider_id = excluded.rider_id,
           amount = excluded.amount, currency = excluded.currency, card_brand = excluded.card_brand,
           card_last4 = excluded.card_last4, card_exp_month = excluded.card_exp_month,
           card_exp_year = excluded.card_exp_year,
           expires_at = clock_timestamp() + (excluded.expires_at - excluded.created_at), created_at = clock_timestamp()
     WHERE ` + expired + `
        OR EXISTS (SELECT FROM asked c WHERE c.own AND c.claim_id = excluded.claim_id AND ` + takenOver + `)
    RETURNING r.claim_id, r.processor_key, r.created_at, clock_timestamp() AS at
), answers AS MATERIALIZED (
    SELECT json_agg(CASE
               WHEN made.claim_id IS NOT NULL THEN json_build_object('claim', json_build_object(
                   'caller', c.place, 'processor_key', made.processor_key, 'now', made.created_at,
                   'taken_over', c.own AND c.taken_over))
               WHEN c.record IS NOT NULL THEN json_build_object('record', c.record)
               WHEN c.stored <> c.earlier THEN json_build_object('earlier', c.stored)
           END ORDER BY c.n) AS answers, max(made.at) AS at
      FROM asked c
      LEFT JOIN made ON made.claim_id = c.claim_id
), done AS (
    UPDATE payments.slots s
       SET attempt = $2, answers = a.answers, used_at = clock_timestamp()
      FROM answers a
     WHERE s.id = (SELECT id FROM slot)
    RETURNING s.id
)
SELECT answers.answers, NOT need.changes AS unchanged,
       coalesce(extract(epoch FROM answers.at - (SELECT since FROM slot)), 0)::float8 AS waited
  FROM answers, need
 WHERE NOT need.changes OR EXISTS (SELECT FROM done)`

	// takenOver says of a record that the request c takes it over.
	takenOver = `r.status = 'PROCESSING' AND (r.claim_id = c.claim_id
                       OR r.claimed_until <= clock_timestamp() AND r.request_fingerprint = c.same)`
)

// sendClaims sends a group of bids: see groupcommit.Config.Send.
func sendClaims(ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []bid) error {
	n := len(group)
	callers, keys, versions, ids, processorKeys := texts(n), texts(n), texts(n), texts(n), texts(n)
	rides, riders, currencies, brands, last4s := texts(n), texts(n), texts(n), texts(n), texts(n)
	leases, ttls, amounts, months, years, earlier := numbers(n), numbers(n), numbers(n), numbers(n), numbers(n), numbers(n)
	sums, same := make(pq.ByteaArray, n), make(pq.ByteaArray, n)

	for i, b := range group {
		callers[i], keys[i], ids[i] = b.Key.Caller, b.Key.Value, string(b.ID)
		sums[i], versions[i], same[i] = b.Fingerprint.Sum, b.Fingerprint.Version, b.same
		leases[i], ttls[i] = b.Lease.Microseconds(), b.TTL.Microseconds()
		processorKeys[i], earlier[i] = payment.ProcessorKey(b.Key, b.earlier), int64(b.earlier)

		t := b.Terms
		rides[i], riders[i], amounts[i], currencies[i] = string(t.RideID), t.RiderID, t.Amount, string(t.Currency)
		brands[i], last4s[i] = t.Card.Brand, t.Card.Last4
		months[i], years[i] = int64(t.Card.ExpMonth), int64(t.Card.ExpYear)
	}

	return a.Run(ctx, session, claimSQL(a.SkipLocked), callers, keys, sums, versions, same, ids, leases,
		ttls, processorKeys, rides, riders, amounts, currencies, brands, last4s, months, years, earlier)
}
