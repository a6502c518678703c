package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

const statusCompleted = "COMPLETED"

// record holds a row of idempotency_records.
type record struct {
	Name        string         `db:"key"` // of the record: see places
	Caller      string         `db:"caller"`
	Status      string         `db:"status"`
	Fingerprint []byte         `db:"request_fingerprint"`
	Version     string         `db:"fingerprint_version"`
	PaymentID   sql.NullString `db:"payment_id"`
	Response    sql.NullInt32  `db:"response_status"`
	Body        []byte         `db:"response_body"`
	ClaimID     sql.NullString `db:"claim_id"`
	// Left is how long the claim lives, in microseconds by the database's clock.
	Left sql.NullInt64 `db:"left_us"`
	// Confirmed says that the synchronous standbys have the record, Unconfirmed that they may lack it.
	Confirmed   sql.NullBool `db:"confirmed"`
	Unconfirmed bool         `db:"unconfirmed"`
}

func (r record) fingerprint() payment.Fingerprint {
	return payment.Fingerprint{Sum: r.Fingerprint, Version: r.Version}
}

func (r record) domain() *payment.Record {
	return &payment.Record{
		PaymentID: payment.ID(r.PaymentID.String), Receipt: payment.Receipt{Code: int(r.Response.Int32), Data: r.Body},
	}
}

// state is what a group has found, or made, of a key: the caller's claim, another's record or claim, or nothing.
type state struct {
	held  *payment.Held
	row   record
	found bool // row is there
	// earlier is how many payments a key has under which nothing else was found.
	earlier int
}

// left returns how long the claim that was found lives.
func (s state) left() time.Duration { return time.Duration(s.row.Left.Int64) * time.Microsecond }

// leftMicros is how long a claim lives, in microseconds. A PROCESSING row without a claim is of no release's making,
// and is left alone.
const leftMicros = `CASE WHEN r.status = 'PROCESSING' THEN
               coalesce((date_part('epoch', r.claimed_until - clock_timestamp()) * 1000000)::bigint, 1000000) END`

// lookSQL reads the live records and the claims of a group, with one read and no lock. A record that it returns is
// answered for: the settlement's wait for the synchronous standbys may have been cancelled.
const lookSQL = `
SELECT key, caller, status, request_fingerprint, fingerprint_version, payment_id, response_status, response_body,
       claim_id, ` + leftMicros + ` AS left_us,
       CASE WHEN status = 'COMPLETED' THEN ` + sqldb.ConfirmSQL + ` END AS confirmed
  FROM payments.idempotency_records AS r
 WHERE key = ANY ($1::text[]) AND (status = 'PROCESSING' OR expires_at > clock_timestamp())`

// look reads what is stored under a key. Unlike the other groups' requests it ends with ctx. It returns
// payment.ErrOutcomeUnknown for a record that a synchronous standby may lack.
func (s *Store) look(ctx context.Context, key payment.Key) (state, error) {
	found, err := s.looks.Do(ctx, key)
	if outcome, ok := sqldb.OutcomeOf(err); ok && outcome == sqldb.Unknown {
		err = fmt.Errorf("%w: %s", payment.ErrOutcomeUnknown, err.Error())
	}
	if errors.Is(err, coalesce.ErrUnknown) { // the outcome of a read is never in doubt
		err = errors.Join(coalesce.ErrLeft, ctx.Err())
	}
	return found, err
}

func (s *Store) runLooks(
	ctx context.Context, _ coalesce.Pass, group []payment.Key,
) ([]coalesce.Answer[state], error) {
	names := make(pq.StringArray, 0, len(group))
	for _, key := range group {
		names = append(names, key.Value)
		if key.Caller != "" {
			names = append(names, ownRecord(key))
		}
	}
	var rows []record
	// A payment does not queue behind pages for it.
	if err := s.db.SelectUnqueued(ctx, &rows, lookSQL, names); err != nil {
		return nil, err
	}
	answers := make([]coalesce.Answer[state], len(group))
	byName := make(map[string]record, len(rows))
	for _, row := range rows {
		byName[row.Name] = row
	}
	for i, key := range group {
		if row, ok := find(byName, key); ok {
			answers[i].Value = state{row: row, found: true}
		}
	}
	return answers, nil
}
