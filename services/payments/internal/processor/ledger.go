package processor

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// LedgerConns is how many connections the ledger needs: one for groups, one for keys that another session is entering.
const LedgerConns = 2

// entry holds a row of the ledger.
type entry struct {
	Key         string `db:"processor_key"       json:"-"`
	Amount      int64  `db:"amount"              json:"amount"`
	Currency    string `db:"currency"            json:"currency"`
	Card        []byte `db:"card_fingerprint"    json:"card"`
	Ride        []byte `db:"ride_fingerprint"    json:"ride"`
	Version     string `db:"fingerprint_version" json:"version"`      // of both fingerprints
	DeclineCode string `db:"decline_code"        json:"decline_code"` // "": charged
	// Fresh says that this call has entered it. The other members are not set then.
	Fresh bool `json:"fresh"`
}

// size returns the bytes that an entry takes on the wire.
func (e entry) size() int {
	const others = 64
	return len(e.Key) + len(e.Card) + len(e.Ride) + len(e.Version) + others
}

// ledger is the simulator's table payments.processor_charges. Entries are never changed. Concurrent charges share one
// statement, whose outcome the group's slot proves.
type ledger struct {
	db      *sqldb.DB
	entries *groupcommit.Committer[string, entry, entry]
}

func newLedger(limits groupcommit.Limits) (l *ledger, err error) {
	l = &ledger{db: limits.DB}
	l.entries, err = groupcommit.New(groupcommit.Config[string, entry, entry]{
		Limits: limits, Name: "payments_ledger", Key: func(e entry) string { return e.Key }, Size: entry.size,
		Send: sendEntries,
	})
	return l, err
}

// enter enters an entry, or returns the one that its key has.
func (l *ledger) enter(ctx context.Context, e entry) (entry, error) { return l.entries.Do(ctx, e) }

// find returns the entry of a key, or payment.ErrNotCharged. It takes no lock and waits for none.
func (l *ledger) find(ctx context.Context, key string) (found entry, err error) {
	const query = `
SELECT processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version,
       coalesce(decline_code, '') AS decline_code
  FROM payments.processor_charges
 WHERE processor_key = $1`
	err = l.db.GetContext(ctx, &found, query, key)
	if errors.Is(err, sql.ErrNoRows) {
		return entry{}, payment.ErrNotCharged
	}
	return found, err
}

// enterSQL enters the keys that have no entry, in the order of the keys, so that replicas do not deadlock, and returns
// the others' entries without a lock. It waits for a session that is entering one of the keys. A key whose entry was
// committed since the statement began gets null, and so do all but the first entry of a key: the next statement sees
// what stands there. lock_timeout is set in a sub-select that is evaluated before any row is touched.
const enterSQL = `
WITH slot AS MATERIALIZED (
    SELECT id
      FROM payments.slots
     WHERE id = $1
       AND attempt = $2 - 1
       AND (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
       FOR UPDATE
), asked AS MATERIALIZED (
    SELECT e.processor_key, e.amount, e.currency, e.card, e.ride, e.version, e.decline_code, e.n,
           row_number() OVER (PARTITION BY e.processor_key ORDER BY e.n) = 1 AS first,
           c.processor_key IS NOT NULL AS there,
           json_build_object('amount', c.amount, 'currency', c.currency, 'card', encode(c.card_fingerprint, 'base64'),
                             'ride', encode(c.ride_fingerprint, 'base64'), 'version', c.fingerprint_version,
                             'decline_code', c.decline_code) AS entry
      FROM unnest($4::text[], $5::bigint[], $6::text[], $7::bytea[], $8::bytea[], $9::text[], $10::text[])
           WITH ORDINALITY AS e (processor_key, amount, currency, card, ride, version, decline_code, n)
      LEFT JOIN payments.processor_charges c ON c.processor_key = e.processor_key
), entered AS (
    INSERT INTO payments.processor_charges AS c
           (processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code)
    SELECT processor_key, amount, currency, card, ride, version, nullif(decline_code, '')
      FROM asked
     WHERE EXISTS (SELECT FROM slot) AND first AND NOT there
     ORDER BY processor_key COLLATE "C"
    ON CONFLICT (processor_key) DO NOTHING
    RETURNING c.processor_key
), answers AS MATERIALIZED (
    SELECT json_agg(CASE WHEN there THEN entry
                         WHEN first AND entered.processor_key IS NOT NULL THEN json_build_object('fresh', true)
                    END ORDER BY n) AS answers
      FROM asked
      LEFT JOIN entered ON entered.processor_key = asked.processor_key
)
UPDATE payments.slots s
   SET attempt = $2, answers = a.answers, used_at = clock_timestamp()
  FROM answers a
 WHERE s.id = (SELECT id FROM slot)
RETURNING s.answers, 0::float8 AS waited`

// sendEntries sends a group of entries: see groupcommit.Config.Send.
func sendEntries(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []entry) error {
	n := len(group)
	keys, currencies, versions := make(pq.StringArray, n), make(pq.StringArray, n), make(pq.StringArray, n)
	amounts, declines := make(pq.Int64Array, n), make(pq.StringArray, n)
	cards, rides := make(pq.ByteaArray, n), make(pq.ByteaArray, n)
	for i, e := range group {
		keys[i], amounts[i], currencies[i] = e.Key, e.Amount, e.Currency
		cards[i], rides[i], versions[i], declines[i] = e.Card, e.Ride, e.Version, e.DeclineCode
	}

	return a.Run(ctx, s, enterSQL, keys, amounts, currencies, cards, rides, versions, declines)
}
