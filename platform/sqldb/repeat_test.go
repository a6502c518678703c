package sqldb_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// At REPEATABLE READ a statement that waited for a changed row fails with 40001: it is
// repeated, and counts once.
func TestOnceRunsAgainAfterASerializationFailure(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	db := open(t, url+"&default_transaction_isolation=repeatable%20read")
	holder := open(t, url)
	var runs int
	release := hold(t, holder, "a")
	done := make(chan error, 1)
	go func() {
		done <- db.Once(t.Context(), func(ctx context.Context, conn *sqlx.Conn) error {
			runs++
			_, err := conn.ExecContext(ctx, `UPDATE counter SET n = n + $1 WHERE id = 'a'`, 1)
			return err
		})
	}()
	waitBlocked(t, holder, 1)
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := value(t, db, "a"); got != 1 || runs != 2 {
		t.Errorf("the counter is %d after %d runs, want 1 after 2", got, runs)
	}
}

// A caller whose deadline lies beyond the statement timeout and its grace costs
// no goroutine, as group commit requires.
func TestOnceIsCheapBeyondTheGrace(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t), func(s *sqldb.Settings) { s.StatementTimeout = time.Minute })
	for name, tc := range map[string]struct {
		deadline  time.Duration
		cancelled bool
	}{
		"later": {time.Minute + 2*sqldb.Grace, false},
		"near":  {time.Minute, true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
		err := db.Once(ctx, func(ctx context.Context, _ *sqlx.Conn) error {
			if cancellable := ctx.Done() != nil; cancellable != tc.cancelled {
				t.Errorf("%s: the statement's context can be cancelled: %v, want %v", name, cancellable, tc.cancelled)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		cancel()
	}
}
