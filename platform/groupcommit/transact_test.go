package groupcommit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// increment adds 1 to a counter in a single transaction, and returns its value.
func (r *rig) increment(ctx context.Context, key string) (int64, error) {
	change := func(ctx context.Context, tx *sqlx.Tx, _ *groupcommit.Attempt) (n int64, err error) {
		err = tx.GetContext(ctx, &n, `UPDATE rig.counters SET n = n + 1 WHERE key = $1 RETURNING n`, key)
		return n, err
	}
	return groupcommit.Transact(ctx, r.slots, "", change)
}

// A transaction that decides against its change, that the server refuses, or that gets no connection leaves nothing
// behind and keeps its slot.
func TestATransactionThatChangesNothingKeepsTheSlot(t *testing.T) {
	t.Parallel()
	var db *sqldb.DB
	r := start(t, func(c *config) { db = c.DB })
	errDecided := errors.New("decided")
	for range 100 {
		change := func(ctx context.Context, tx *sqlx.Tx, _ *groupcommit.Attempt) (int64, error) {
			_, err := tx.ExecContext(ctx, `UPDATE rig.counters SET n = 7 WHERE key = 'key-0'`)
			return 0, errors.Join(errDecided, err)
		}
		if _, err := groupcommit.Transact(t.Context(), r.slots, "", change); !errors.Is(err, errDecided) {
			t.Fatalf("got %v, want %v", err, errDecided)
		}
	}
	if _, err := r.increment(t.Context(), "full"); err == nil {
		t.Error("a counter beyond its limit is accepted")
	}

	busy, release := make(chan struct{}), make(chan struct{})
	var others sync.WaitGroup
	for range db.Stats().MaxOpenConnections {
		others.Go(func() {
			err := db.InTx(t.Context(), func(context.Context, *sqlx.Tx) error {
				busy <- struct{}{}
				<-release
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-busy
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := r.increment(ctx, "key-0")
	close(release)
	others.Wait()
	if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.NotApplied {
		t.Errorf("without a connection: %v, want NotApplied", err)
	}

	if n, err := r.increment(t.Context(), "key-0"); n != 1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
	r.wantSlots(t, 1)
}
