package postgres_test

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// While a crowd of batches stands at a count that stays locked, a batch of other counts that collides with another
// session for a moment is made soon, not after a round of the crowd. When the count is free the crowd is made, too.
func TestCrowdOfBatchesDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	const crowd, moment, soon = 100, 60 * time.Millisecond, 1500 * time.Millisecond
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, seen := openSeen(t, dsn, sqldb.PoolerNone, 2*time.Minute)
	db := dbtest.Dial(t, dsn)
	mustCreate(t, s, "a", "locked", "x", "y")
	holder := lock(t, db, "locked")
	answers := make(chan error, crowd)
	for range crowd {
		go func() {
			_, err := s.Change(t.Context(), update("", "a", "locked"))
			answers <- err
		}()
	}
	waittest.Eventually(t, "the crowd stands in line", func() bool {
		tries, _ := seen.Waits(t, contention.InProcess)
		return tries >= crowd
	})

	collides := lock(t, db, "x")
	begin := time.Now()
	freed := time.AfterFunc(moment, collides.Rollback)
	if _, err := s.Change(t.Context(), update("", "x", "y")); err != nil {
		t.Errorf("another batch: %v", err)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("another batch took %s, want %s at most", took, soon)
	}
	if freed.Stop() {
		t.Error("another batch did not wait for its count: the test proved nothing")
	}
	holder.Rollback()
	for range crowd {
		if err := <-answers; err != nil {
			t.Errorf("a batch of the crowd: %v", err)
		}
	}
	wantValue(t, s, "locked", crowd)
	wantValue(t, s, "a", crowd)
	wantValue(t, s, "x", 1)
}
