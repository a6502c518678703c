package sqldb_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

// At REPEATABLE READ a statement that waited for a changed row fails with 40001: it is
// repeated, and counts once.
func TestOnceRunsAgainAfterASerializationFailure(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	reg := prometheus.NewRegistry()
	db := apptest.Pool(t, sqldb.Settings{URL: url + "&default_transaction_isolation=repeatable%20read"}, reg)
	holder := open(t, url)
	release := hold(t, holder, "a")
	done := make(chan error, 1)
	go func() {
		var n int
		done <- db.Once().GetContext(t.Context(), &n, oneUpdate+` RETURNING n`, 1)
	}()
	waitBlocked(t, holder, 1)
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantValue(t, db, "a", 1)
	if n := apptest.Gathered(t, reg, `rowlock_retries_total{pool="main",sqlstate="40001"}`); n != 1 {
		t.Errorf("%v repetitions, want 1", n)
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
		statement, end := db.StatementContext(ctx)
		if cancellable := statement.Done() != nil; cancellable != tc.cancelled {
			t.Errorf("%s: the statement's context can be cancelled: %v, want %v", name, cancellable, tc.cancelled)
		}
		end()
		cancel()
	}
}
