package processor

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// LedgerConns is the number of connections of the ledger: one for groups, one for keys that another session is
// entering.
const LedgerConns = 2

// entry holds a row of the ledger.
type entry struct {
	Key         string `db:"processor_key"`
	Amount      int64  `db:"amount"`
	Currency    string `db:"currency"`
	Card        []byte `db:"card_fingerprint"`
	Ride        []byte `db:"ride_fingerprint"`
	Version     string `db:"fingerprint_version"` // of both fingerprints
	DeclineCode string `db:"decline_code"`        // "": charged
	// Fresh says that this call has entered it.
	Fresh bool
}

// size returns the size in bytes of an entry on the wire.
func (e entry) size() int {
	const others = 64
	return len(e.Key) + len(e.Card) + len(e.Ride) + len(e.Version) + others
}

const readSQL = `
SELECT processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version,
       coalesce(decline_code, '') AS decline_code
  FROM payments.processor_charges
 WHERE processor_key = ANY ($1::text[])`

// find returns the entry of a key, or payment.ErrNotCharged. It neither takes a lock nor waits for one.
func find(ctx context.Context, db *sqldb.DB, key string) (found entry, err error) {
	err = db.GetContext(ctx, &found, readSQL, pq.StringArray{key})
	if errors.Is(err, sql.ErrNoRows) {
		return entry{}, payment.ErrNotCharged
	}
	return found, err
}

// insertSQL enters the keys that have no entry, in the order of the keys, so that replicas do not deadlock. It waits
// for a session that is entering one of them, and does not lock existing entries. A sub-select sets lock_timeout before
// any row is touched.
const insertSQL = `
INSERT INTO payments.processor_charges
       (processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code)
SELECT e.processor_key, e.amount, e.currency, e.card, e.ride, e.version, nullif(e.decline_code, '')
  FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[], $7::text[], $8::text[])
       WITH ORDINALITY AS e (processor_key, amount, currency, card, ride, version, decline_code, n)
 WHERE (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
 ORDER BY e.processor_key COLLATE "C", e.n
ON CONFLICT (processor_key) DO NOTHING
RETURNING processor_key`

// sendEntries sends a group of entries: see groupcommit.Config.Repeat. It enters the new ones. If some are not, it
// reads all in a later snapshot, which has every entry that was in the way. If a group repeats a key, the later entries
// get the first one. An entry that was removed meanwhile waits for the next sending.
func sendEntries(
	ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []entry,
) ([]*entry, error) {
	n := len(group)
	keys, currencies, versions := make(pq.StringArray, n), make(pq.StringArray, n), make(pq.StringArray, n)
	amounts, declines := make(pq.Int64Array, n), make(pq.StringArray, n)
	cards, rides := make(pq.ByteaArray, n), make(pq.ByteaArray, n)
	for i, e := range group {
		keys[i], amounts[i], currencies[i] = e.Key, e.Amount, e.Currency
		cards[i], rides[i], versions[i], declines[i] = e.Card, e.Ride, e.Version, e.DeclineCode
	}

	var entered []string
	err := s.SelectContext(ctx, &entered, insertSQL, sqldb.Milliseconds(a.LockWait), keys, amounts, currencies, cards,
		rides, versions, declines)
	if err != nil {
		return nil, err
	}

	found := make(map[string]*entry)
	if len(entered) < n {
		var there []entry
		if err := s.SelectContext(ctx, &there, readSQL, keys); err != nil {
			return nil, err
		}
		for _, e := range there {
			found[e.Key] = &e
		}
	}

	answers := make([]*entry, n)
	for i, e := range group {
		answers[i] = found[e.Key]
		if at := slices.Index(entered, e.Key); at >= 0 { // by the first request of the key
			entered = slices.Delete(entered, at, at+1)
			e.Fresh = true
			answers[i] = &e
		}
	}
	return answers, nil
}
