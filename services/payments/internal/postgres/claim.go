package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"

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

	// same is the fingerprint in the record of the same request. It differs from the claim's if it was made with the
	// previous secret.
	same []byte
	// earlier is the number of payments stored under the key.
	earlier int
}

// size returns the size in bytes of a bid on the wire.
func (b bid) size() int {
	const others = 320
	return others + len(b.Key.Value) + len(b.Key.Caller)
}

// reply is the answer to a bid. One member is set: the key, by a new claim or one taken over, the record of another
// request, or the number of payments stored under the key if the bid had another number.
type reply struct {
	held    *payment.Held
	record  *record
	earlier int
}

// Claim implements payment.Repository. While another request with the same content holds the key, the bid waits in the
// key's lane.
func (s *Store) Claim(ctx context.Context, c payment.Claim) (payment.Claimed, error) {
	b := bid{Claim: c, same: c.Fingerprint.Sum}
	for {
		r, err := s.bid(ctx, b)
		switch {
		case err != nil:
			return payment.Claimed{}, err
		case r.held != nil:
			if r.held.TakenOver {
				s.options.Contention.Conflict(contention.TakenOver)
			}
			failpoint.Hit(failpoint.Claimed)
			return payment.Claimed{Held: *r.held, Leave: func() { s.claims.Freed(c.Key) }}, nil
		case r.record == nil:
			b.earlier = r.earlier
			continue
		}

		same, err := c.Same(r.record.fingerprint())
		switch {
		case err != nil:
			return payment.Claimed{}, err
		case !same:
			return payment.Claimed{}, payment.ErrKeyConflict
		case r.record.Status.String == completed:
			return payment.Claimed{Record: r.record.domain()}, nil
		}
		b.same = r.record.Fingerprint // claimSQL answers null to the next bid, which then waits in the key's lane
	}
}

// bid sends a bid. Its errors say that nothing was charged, whether or not the claim is stored.
func (s *Store) bid(ctx context.Context, b bid) (reply, error) {
	r, err := s.claims.Do(ctx, b)
	if errors.Is(err, groupcommit.ErrUnknown) {
		// The client left while the bid was under way. If the bid has made a claim, the payment must follow.
		r, err = s.claims.Do(context.WithoutCancel(ctx), b)
		if r.held != nil {
			r.held.TakenOver = true // perhaps from the first sending
		}
	}

	if errors.Is(err, groupcommit.ErrLocked) {
		return reply{}, payment.ErrProcessing
	}
	return r, sqldb.AsNotApplied(err)
}

// expired is the condition that a record has expired, so that its key counts as new.
const (
	expired   = expiredAt + `clock_timestamp()`
	expiredAt = `r.status = 'COMPLETED' AND r.expires_at <= `
)

// claimSQL claims keys that are absent or expired. It takes over claims that ran out if they belong to the same
// request, and the bid's own claim if an earlier sending made it and its answer was lost. It does not claim a key that
// does not have exactly c.earlier payments. A key that another request with the same content has claimed gets no
// answer, nor does one that another session changes at the same time: the next statement sees the result.
//
// A caller without a live record gets the key's live record without a caller (place). If no bid has a caller, as
// without authentication, there is only that one. A claim that is taken over keeps its fingerprint and the processor's
// key.
//
// The count and its record (asked) are from the statement's snapshot: no key is claimed whose record was live in the
// snapshot. A payment could be stored meanwhile under a key that is then claimed only if a claim were made, settled and
// expired while the statement runs; but a key lives longer than two statements may run.
//
// If there is no key to claim, the statement locks and writes nothing, so that a repeat costs no commit. The
// synchronous standbys confirm a stored answer, because the wait for them at its settlement may have been cancelled.
//
// Rows are locked in the order of their keys. The statement uses clock_timestamp() because now() does not advance while
// it waits. A sub-select sets lock_timeout before any row is touched.
func claimSQL(named, skipLocked bool) string {
	asked := claimHead + ofNoCaller + claimState
	if named {
		asked = claimHead + ofCaller + claimState
	}
	if skipLocked {
		return asked + claimFree + claimMade + ` AND (absent OR n IN (SELECT n FROM free))` + claimTail
	}
	return asked + claimMade + claimTail
}

const (
	claimColumns = `r.key, r.caller, r.expires_at, r.claim_id, r.claimed_until, r.processor_key, ` + recordColumns

	claimHead = `
WITH asked AS MATERIALIZED (
    SELECT c.key, c.same, c.claim_id, c.lease, c.ttl, c.ride_id, c.rider_id, c.amount, c.currency, c.brand, c.last4,
           c.month, c.year, c.earlier, c.n, coalesce(r.caller, c.caller) AS place, r.key IS NULL AS absent, clock.now,
           CASE WHEN state.own THEN r.request_fingerprint ELSE c.fingerprint END AS fingerprint,
           CASE WHEN state.own THEN r.fingerprint_version ELSE c.version END AS version,
           CASE WHEN state.own THEN r.processor_key ELSE c.processor_key END AS processor_key,
           row_number() OVER (PARTITION BY c.key, coalesce(r.caller, c.caller) ORDER BY c.n) = 1 AS first,
           state.own, state.own AND ($2 OR r.claim_id <> c.claim_id) AS taken_over,
           CASE WHEN state.new THEN (SELECT count(*) FROM payments.payments p
                                      WHERE p.idempotency_key = c.key AND p.caller = c.caller) END AS stored,
           NOT state.new AND (r.status = 'COMPLETED' OR r.request_fingerprint <> c.same) AS found,
           ` + recordColumns + `
      FROM unnest($3::text[], $4::text[], $5::bytea[], $6::text[], $7::bytea[], $8::uuid[], $9::bigint[],
                  $10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[], $15::text[], $16::text[],
                  $17::text[], $18::smallint[], $19::smallint[], $20::int[])
           WITH ORDINALITY AS c (caller, key, fingerprint, version, same, claim_id, lease, ttl, processor_key, ride_id,
                                 rider_id, amount, currency, brand, last4, month, year, earlier, n)
     CROSS JOIN LATERAL (SELECT clock_timestamp() AS now) AS clock
`
	claimState = `
     CROSS JOIN LATERAL (
         SELECT r.key IS NULL OR ` + expiredAt + `clock.now AS new, coalesce(` + takenOver + `, false) AS own
     ) AS state
     WHERE (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
)`

	// ofCaller joins the record that answers a caller. ofNoCaller does so for bids without a caller, in a tenth less time.
	// LIMIT keeps a plan that is made while the table is empty from joining the whole index.
	ofCaller = `
      LEFT JOIN LATERAL (
         SELECT ` + claimColumns + `, ` + expiredAt + `clock.now AS expired
           FROM payments.idempotency_records r
          WHERE r.key = c.key AND r.caller IN (c.caller, '')
          ORDER BY expired, r.caller DESC
          LIMIT 1
     ) AS r ON r.caller = c.caller OR NOT r.expired`
	ofNoCaller = `
      LEFT JOIN LATERAL (
         SELECT ` + claimColumns + `
           FROM payments.idempotency_records r
          WHERE r.key = c.key AND r.caller = c.caller
          LIMIT 1
     ) AS r ON true`

	// claimFree locks the rows that are free.
	claimFree = `, free AS MATERIALIZED (
    SELECT c.n
      FROM asked c
      JOIN payments.idempotency_records r ON r.key = c.key AND r.caller = c.place
     WHERE c.first AND (c.own OR c.stored = c.earlier)
     ORDER BY r.key, r.caller
       FOR UPDATE OF r SKIP LOCKED
)`

	claimMade = `, made AS (
    INSERT INTO payments.idempotency_records AS r
           (key, caller, status, request_fingerprint, fingerprint_version, claim_id, claimed_until, processor_key,
            ride_id, rider_id, amount, currency, card_brand, card_last4, card_exp_month, card_exp_year, expires_at,
            created_at)
    SELECT key, place, 'PROCESSING', fingerprint, version, claim_id, now + lease * interval '1 microsecond',
           processor_key, ride_id, rider_id, amount, currency, brand, last4, month, year,
           now + ttl * interval '1 microsecond', now
      FROM asked
     WHERE first AND (own OR stored = earlier)`

	claimTail = `
     ORDER BY key COLLATE "C", place COLLATE "C"
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
)
SELECT c.place, made.processor_key, made.created_at AS claimed, c.taken_over, c.stored, c.found, c.status,
       c.request_fingerprint, c.fingerprint_version, c.payment_id, c.response_status, c.response_body,
       CASE WHEN c.found AND c.status = 'COMPLETED' THEN ` + sqldb.ConfirmSQL + ` END AS confirmed,
       coalesce(extract(epoch FROM made.at - c.now), 0)::float8 AS waited
  FROM asked c
  LEFT JOIN made ON made.claim_id = c.claim_id
 ORDER BY c.n`

	// takenOver is the condition that the request c takes a record over.
	takenOver = `r.status = 'PROCESSING' AND (r.claim_id = c.claim_id
                       OR r.claimed_until <= clock_timestamp() AND r.request_fingerprint = c.same)`
)

// claimRow is a row of claimSQL, one for each bid.
type claimRow struct {
	record

	Place        string         `db:"place"`
	ProcessorKey sql.NullString `db:"processor_key"`
	Claimed      sql.NullTime   `db:"claimed"` // null unless the key was claimed
	TakenOver    bool           `db:"taken_over"`
	Stored       sql.NullInt64  `db:"stored"` // payments under a new key
	Found        bool           `db:"found"`  // the record is an answer
	Confirmed    sql.NullBool   `db:"confirmed"`
	Waited       float64        `db:"waited"`
}

// reply returns the answer to a bid, or nil if it must wait.
func (r claimRow) reply(b bid) *reply {
	switch {
	case r.Claimed.Valid:
		return &reply{held: &payment.Held{
			Key: payment.Key{Caller: r.Place, Value: b.Key.Value}, ClaimID: b.ID, ProcessorKey: r.ProcessorKey.String,
			Terms: b.Terms, Now: r.Claimed.Time.UTC(), TakenOver: r.TakenOver,
		}}
	case r.Found:
		return &reply{record: &r.record}
	case r.Stored.Valid && r.Stored.Int64 != int64(b.earlier):
		return &reply{earlier: int(r.Stored.Int64)}
	}
	return nil
}

// sendClaims sends a group of bids: see groupcommit.Config.Repeat. A bid recognises its claim by its id.
func sendClaims(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []bid,
) ([]*reply, error) {
	n := len(group)
	callers, keys, versions, ids, processorKeys := texts(n), texts(n), texts(n), texts(n), texts(n)
	rides, riders, currencies, brands, last4s := texts(n), texts(n), texts(n), texts(n), texts(n)
	leases, ttls, amounts, months, years, earlier := numbers(n), numbers(n), numbers(n), numbers(n), numbers(n), numbers(n)
	sums, same := make(pq.ByteaArray, n), make(pq.ByteaArray, n)

	named := slices.ContainsFunc(group, func(b bid) bool { return b.Key.Caller != "" })
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

	var rows []claimRow
	err := session.SelectContext(ctx, &rows, claimSQL(named, a.SkipLocked), sqldb.Milliseconds(a.LockWait), a.Again,
		callers, keys, sums, versions, same, ids, leases, ttls, processorKeys, rides, riders, amounts, currencies, brands,
		last4s, months, years, earlier)
	if err != nil {
		return nil, err
	}

	replies := make([]*reply, len(rows))
	for i, row := range rows {
		replies[i] = row.reply(group[i])
		a.WaitedFor(row.Waited)
	}
	return replies, nil
}
