package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// resolveSQL finds out what became of the statement with a journal id, and takes the id when the statement has not: it
// then fails on the primary key, however late it arrives. The index waits for a statement that has inserted its row and
// not ended. Both ways write, so that what is answered has been committed here, and on a synchronous standby.
const resolveSQL = `
INSERT INTO counts.journal (id, results, expires_at)
VALUES ($1, NULL, clock_timestamp() + $2 * interval '1 microsecond')
ON CONFLICT (id) DO UPDATE SET expires_at = counts.journal.expires_at
RETURNING results`

// errTooOld says that a journal row may have been deleted again, so that its absence proves nothing.
var errTooOld = errors.New("counts: the lost statement is older than half of JOURNAL_TTL")

// resolve returns what a statement that was sent at a time and lost its answer has stored in the journal, or nil when
// it was not applied and never will be.
func (s *Store) resolve(ctx context.Context, id uuid.UUID, sent time.Time) (nullInts, error) {
	var results nullInts
	err := s.db.GetUnqueued(ctx, &results, resolveSQL, id, s.journalTTL.Microseconds())
	if err == nil && results == nil && sqldb.Age(sent) > s.journalTTL/2 {
		return nil, errTooOld
	}
	return results, err
}

// nullInts is a bigint[] with NULLs; nil is NULL itself.
type nullInts []nullInt

type nullInt struct {
	value int64
	valid bool
}

// Scan implements sql.Scanner.
func (a *nullInts) Scan(src any) error {
	if src == nil {
		*a = nil
		return nil
	}
	text, ok := src.([]byte)
	if !ok {
		return fmt.Errorf("bigint[] as %T", src)
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(string(text), "{"), "}")
	*a = make(nullInts, 0, strings.Count(inner, ",")+1)
	if inner == "" {
		return nil
	}
	for element := range strings.SplitSeq(inner, ",") {
		if element == "NULL" {
			*a = append(*a, nullInt{})
			continue
		}
		value, err := strconv.ParseInt(element, 10, 64)
		if err != nil {
			return fmt.Errorf("bigint[]: %w", err)
		}
		*a = append(*a, nullInt{value, true})
	}
	return nil
}
