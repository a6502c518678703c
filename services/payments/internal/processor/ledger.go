package processor

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// LedgerConns is how many connections the ledger needs: one for groups, one for keys that another session is entering.
const LedgerConns = 2

// entry holds a row of the ledger.
type entry struct {
	Key         string         `db:"processor_key"`
	Amount      int64          `db:"amount"`
	Currency    string         `db:"currency"`
	Card        []byte         `db:"card_fingerprint"`
	Ride        []byte         `db:"ride_fingerprint"`    // nil: of a release that did not compare rides
	Version     string         `db:"fingerprint_version"` // of both
	DeclineCode sql.NullString `db:"decline_code"`
	Fresh       bool           // entered by this call
}

// size returns the bytes that an entry takes on the wire.
func (e entry) size() int {
	const others = 64
	return len(e.Key) + len(e.Card) + len(e.Ride) + len(e.Version) + others
}

type answer = coalesce.Answer[entry]

// ledger is the simulator's table payments.processor_charges. Entries are never changed. Concurrent charges share one
// statement.
type ledger struct {
	db      *sqldb.DB
	entries *coalesce.Coalescer[string, entry, entry]
}

func newLedger(db *sqldb.DB, limits coalesce.Limits, gate *coalesce.Gate) (l *ledger, err error) {
	l = &ledger{db: db}
	l.entries, err = coalesce.New(coalesce.Config[string, entry, entry]{
		Name: "payments_ledger", Key: func(e entry) string { return e.Key }, Size: entry.size, Run: l.run,
		Statements: 2, Limits: limits, Gate: gate,
	})
	return l, err
}

// enter enters an entry, or returns the one that its key has.
func (l *ledger) enter(ctx context.Context, e entry) (entry, error) { return l.entries.Do(ctx, e) }

// find returns the entry of a key, or payment.ErrNotCharged. It takes no lock and waits for none.
func (l *ledger) find(ctx context.Context, key string) (entry, error) {
	found, err := l.read(ctx, []string{key})
	if err == nil && len(found) == 0 {
		err = payment.ErrNotCharged
	}
	return found[key], err
}

// run enters a group.
func (l *ledger) run(ctx context.Context, pass coalesce.Pass, group []entry) ([]answer, error) {
	if pass.SkipLocked {
		return coalesce.Halve(group, func(wait time.Duration, part []entry) ([]answer, error) {
			return l.enterGroup(ctx, wait, part)
		}), nil
	}
	return l.enterGroup(ctx, pass.Wait, group)
}

// enterGroup enters the entries whose keys have none, and reads the others in a younger snapshot: what stood in the way
// is committed by then. An entry behind another one with its key in the group gets the other one.
func (l *ledger) enterGroup(ctx context.Context, wait time.Duration, group []entry) ([]answer, error) {
	entered, err := l.insert(ctx, wait, group)
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	answers := make([]answer, len(group))
	var others []string
	for i, e := range group {
		if e.Fresh = entered[e.Key]; e.Fresh {
			delete(entered, e.Key)
			answers[i].Value = e
		} else {
			others = append(others, e.Key)
		}
	}
	if len(others) == 0 {
		return answers, nil
	}
	there, err := l.read(ctx, others)
	for i, e := range group {
		if answers[i].Value.Fresh {
			continue // whatever became of the others
		}
		found, ok := there[e.Key]
		if answers[i] = (answer{Value: found, Err: err}); err == nil && !ok {
			answers[i].Err = errRemoved
		}
	}
	return answers, nil
}

// errRemoved reports an entry that was removed, after LEDGER_RETENTION, at the moment when it was asked for.
var errRemoved = errors.New("the entry was removed meanwhile")

// insertSQL enters the keys that have no entry, in the order of the keys, so that replicas do not deadlock. It waits
// for a session that is entering one of them, and takes no lock of an entry that is there. It sets lock_timeout for
// itself, in a sub-select that is evaluated before any row is touched.
const insertSQL = `
INSERT INTO payments.processor_charges
       (processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code)
SELECT e.processor_key, e.amount, e.currency, e.card, e.ride, e.version, nullif(e.decline_code, '')
  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::bytea[], $6::text[], $7::text[])
       WITH ORDINALITY AS e (processor_key, amount, currency, card, ride, version, decline_code, n)
 WHERE (SELECT set_config('lock_timeout', $8, true)) IS NOT NULL
 ORDER BY e.processor_key COLLATE "C", e.n
ON CONFLICT (processor_key) DO NOTHING
RETURNING processor_key`

// insert enters what is new and returns its keys. Of several entries with one key it enters the first.
func (l *ledger) insert(ctx context.Context, wait time.Duration, group []entry) (map[string]bool, error) {
	n := len(group)
	keys, currencies, versions := make(pq.StringArray, n), make(pq.StringArray, n), make(pq.StringArray, n)
	amounts, declines := make(pq.Int64Array, n), make(pq.StringArray, n)
	cards, rides := make(pq.ByteaArray, n), make(pq.ByteaArray, n)
	for i, e := range group {
		keys[i], amounts[i], currencies[i] = e.Key, e.Amount, e.Currency
		cards[i], rides[i], versions[i], declines[i] = e.Card, e.Ride, e.Version, e.DeclineCode.String
	}
	var entered []string
	err := l.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		entered = nil // the statement may be run again
		return conn.SelectContext(ctx, &entered, insertSQL,
			keys, amounts, currencies, cards, rides, versions, declines, sqldb.Milliseconds(wait))
	})
	set := make(map[string]bool, len(entered))
	for _, key := range entered {
		set[key] = true
	}
	return set, err
}

// read returns the entries of these keys, by their keys.
func (l *ledger) read(ctx context.Context, keys []string) (map[string]entry, error) {
	const query = `
SELECT processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code
  FROM payments.processor_charges
 WHERE processor_key = ANY ($1)`
	var rows []entry
	err := l.db.SelectContext(ctx, &rows, query, pq.StringArray(keys))
	found := make(map[string]entry, len(rows))
	for _, e := range rows {
		found[e.Key] = e
	}
	return found, err
}
