package groupcommit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Session is what Send sends statements on: sqldb's Once, or a transaction.
type Session interface {
	// ExecContext sends a statement that returns no rows.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// GetContext scans the first row into dest, as sqlx does. No row is sql.ErrNoRows.
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	// SelectContext scans all rows into the slice at dest, as sqlx does.
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// Attempt is one sending of a group.
type Attempt struct {
	// LockWait is the lock_timeout of the statements.
	LockWait time.Duration
	// SkipLocked asks to leave the rows that are locked unchanged, with the answer null to their requests. A locked row
	// must never be mistaken for a missing one. It is set only where a group has several keys, or several lanes wait, and
	// for each group that first needs leases.
	SkipLocked bool
	// Lease is the token that [Lease.Take] has returned for the group.
	Lease any
	// Slot names the slot, with Place where the slots have one, and Number the attempt that this sending takes. A
	// transaction calls Store, or updates the slot in its own last statement, after Encode. A single statement locks the
	// slot's row, which must hold Number - 1, before it changes anything, and gives it Number, Answers and the clock's
	// time. Where there is no such row, it changes nothing, and Send returns ErrNoSlot.
	Place  string
	Slot   string
	Number int64

	// Answers is set by Send to what the slot has stored: a JSON array with one element for each request of the group, in
	// the group's order, that an R is decoded from. An element null says that the request's row is locked, or that its key
	// is held in another way, such as by a claim: the request waits in the lane of its key.
	Answers []byte
	// Again says that an earlier sending of the group may have been applied. Only Repeat sees it.
	Again bool
	// Waited is set by Send and Repeat to the time for which the statements waited for locked rows.
	Waited time.Duration

	slots *Slots // nil on MySQL
}

const storeSQL = `
UPDATE %s
   SET attempt = $2, answers = $3, used_at = statement_timestamp()
 WHERE id = $1 AND attempt = $2 - 1%s`

// Store encodes the answers, one for each request, and writes them into the slot, as the last statement of a
// transaction. It returns ErrNoSlot, upon which Send must return it and nothing is committed, when the slot does not
// hold the attempt before.
func (a *Attempt) Store(ctx context.Context, s Session, answers any) error {
	if err := a.Encode(answers); err != nil || a.slots == nil {
		return err
	}

	result, err := s.ExecContext(ctx, a.slots.storeSQL, a.slots.placed(a.Place, a.Slot, a.Number, a.Answers)...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(ErrNoSlot, err)
	}
	return nil
}

// Encode sets Answers, for a last statement of a transaction that writes the slot besides other rows.
func (a *Attempt) Encode(answers any) (err error) {
	if a.Answers, err = json.Marshal(answers); err != nil {
		return fmt.Errorf("groupcommit: encode the answers: %w", err)
	}
	return nil
}

// WaitedFor sets Waited to a time in seconds, unless it is longer already.
func (a *Attempt) WaitedFor(seconds float64) {
	a.Waited = max(a.Waited, time.Duration(seconds*float64(time.Second)))
}

// Run sends the statement of a group that is one statement, and sets Answers and Waited. Its first three
// parameters are the slot, the number and lock_timeout, args follow. It returns one row: answers, and waited, in
// seconds. Where it returns no row Run returns ErrNoSlot.
func (a *Attempt) Run(ctx context.Context, s Session, statement string, args ...any) error {
	var row struct {
		Answers []byte  `db:"answers"`
		Waited  float64 `db:"waited"`
	}
	args = append([]any{a.Slot, a.Number, sqldb.Milliseconds(a.LockWait)}, args...)
	err := s.GetContext(ctx, &row, statement, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNoSlot
	}
	if err != nil {
		return err
	}

	a.Answers, a.Waited = row.Answers, time.Duration(row.Waited*float64(time.Second))
	return nil
}
