package groupcommit_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Answers of groups and of single transactions get lost before and after COMMIT. No caller is told that an outcome is
// unknown, each is answered with the value that it has committed, and the sums are exact.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	group := func(ctx context.Context, r *rig) (int64, error) { return r.Do(ctx, request{key: "key-0"}) }
	alone := func(ctx context.Context, r *rig) (int64, error) { return r.increment(ctx, "key-0") }
	for name, tc := range map[string]struct {
		when    faultproxy.When
		add     func(ctx context.Context, r *rig) (int64, error)
		callers int
	}{
		"before COMMIT":      {faultproxy.BeforeCommit, group, 16},
		"after COMMIT":       {faultproxy.AfterCommit, group, 16},
		"after a statement":  {faultproxy.AfterStatement, group, 16},
		"during a statement": {faultproxy.DuringStatement, group, 16},
		"alone, before":      {faultproxy.BeforeCommit, alone, 4},
		"alone, after":       {faultproxy.AfterCommit, alone, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const adds = 20
			dsn := database(t)
			proxy := faultproxy.New(t, dsn)
			r := startOn(t, sqldb.ClusterNone, dsn, proxy.DSN(dsn))
			proxy.CutEvery(4, tc.when, faultproxy.RST)

			var acknowledged atomic.Int64
			given := make([]atomic.Bool, tc.callers*adds+1)
			waittest.Together(t, tc.callers, func(int) error {
				for range adds {
					n, err := tc.add(t.Context(), r)
					if outcome, ours := sqldb.OutcomeOf(err); ours && outcome == sqldb.NotApplied { // lost three times
						continue
					}
					if err != nil {
						return err
					}
					acknowledged.Add(1)
					if given[n].Swap(true) {
						return fmt.Errorf("two were given the value %d", n)
					}
				}
				return nil
			})

			if proxy.Cuts() == 0 {
				t.Error("nothing was cut: the test proved nothing")
			}
			r.wantValue(t, "key-0", acknowledged.Load())
		})
	}
}

// The look-up waits for a session that may still commit, and then tells its answers.
func TestLookUpWaitsForTheSession(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	proxy := faultproxy.New(t, dsn)
	r := startOn(t, sqldb.ClusterNone, dsn, proxy.DSN(dsn))
	if err := r.do(t.Context(), "key-0"); err != nil { // makes the slot
		t.Fatal(err)
	}

	// Another session has the slot's row, as the lost session has before its COMMIT.
	hold := apptest.Hold(t, r.direct, `SELECT FROM rig.slots FOR UPDATE`)
	proxy.Cut(faultproxy.AfterCommit, faultproxy.FIN)
	answer := r.doAll(t.Context(), 1, request{key: "key-0"})
	apptest.WaitForBlocked(t, r.direct, 1)
	hold.Rollback()
	want(t, answer, 1, nil)
	r.wantValue(t, "key-0", 2)
}

// A group whose attempt a look-up has taken arrives late and changes nothing.
func TestLateGroup(t *testing.T) {
	t.Parallel()
	first := true
	r := start(t, func(c *config) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			if first { // a look-up was quicker
				first = false
				var none []int
				const taken = `UPDATE rig.slots SET attempt = $2, answers = NULL WHERE id = $1 RETURNING 1`
				if err := c.DB.Repeatable().SelectContext(ctx, &none, taken, a.Slot, a.Number); err != nil {
					return err
				}
			}
			return add(ctx, s, a, group)
		}
	})
	if n, err := r.Do(t.Context(), request{key: "key-0"}); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	r.wantValue(t, "key-0", 1) // the late group has not changed it
}

// A slot that is gone proves nothing: a lost answer stays unknown, and the next group has another slot.
func TestSlotIsGone(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	proxy := faultproxy.New(t, dsn)
	r := startOn(t, sqldb.ClusterNone, dsn, proxy.DSN(dsn))
	if err := r.do(t.Context(), "key-0"); err != nil {
		t.Fatal(err)
	}

	// Deleted while idle: nothing was changed by the group that does not find it.
	apptest.Execute(t, r.direct, `DELETE FROM rig.slots`)
	if n, err := r.Do(t.Context(), request{key: "key-0"}); n != 2 || err != nil {
		t.Errorf("after the slot was deleted: %d, %v", n, err)
	}

	// Deleted with its answers, before they were asked for.
	apptest.Execute(t, r.direct, `CREATE FUNCTION rig.forget() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN DELETE FROM rig.slots WHERE id = NEW.id; RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER forget AFTER UPDATE ON rig.slots DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION rig.forget()`)
	proxy.Cut(faultproxy.AfterCommit, faultproxy.FIN)
	err := r.do(t.Context(), "key-0")
	if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.Unknown {
		t.Errorf("got %v, want an unknown outcome", err)
	}
}

// Slots that were not used for their time to live are deleted, those in use are not.
func TestOldSlotsAreDeleted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster  sqldb.Cluster
		database func(*testing.T) string
		old      string
	}{
		"one server": {sqldb.ClusterNone, database, `INSERT INTO rig.slots (id, attempt, used_at)
			SELECT gen_random_uuid(), 7, now() - interval '1 hour' FROM generate_series(1, 1200)`},
		"shards": {sqldb.ClusterCitus, shardedDatabase, `INSERT INTO rig.slots (place, id, attempt, used_at)
			SELECT 'key-' || n, gen_random_uuid(), 7, now() - interval '1 hour' FROM generate_series(1, 1200) AS n`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := tc.database(t)
			r := startOn(t, tc.cluster, dsn, dsn)
			if err := r.do(t.Context(), "key-0"); err != nil {
				t.Fatal(err)
			}
			apptest.Execute(t, r.direct, tc.old)
			if err := r.slots.CleanAll(t.Context()); err != nil {
				t.Fatal(err)
			}

			r.wantSlots(t, 1)
			if n, err := r.Do(t.Context(), request{key: "key-0"}); n != 2 || err != nil {
				t.Errorf("afterwards: %d, %v", n, err)
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.slots.Run(over, slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A caller that leaves while the answer of its group is lost may repeat its request: the group is sent again for the
// others alone.
func TestWhoHasLeftIsNotSentAgain(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	proxy := faultproxy.New(t, dsn)
	ctx, leave := context.WithCancel(t.Context())
	gathered := make(chan struct{})
	var left <-chan error
	r := startOn(t, sqldb.ClusterNone, dsn, proxy.DSN(dsn), func(c *config) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			<-gathered
			if len(group) == 2 {
				leave()
				want(t, left, 1, groupcommit.ErrUnknown)
				proxy.Cut(faultproxy.BeforeCommit, faultproxy.FIN)
			}
			return add(ctx, s, a, group)
		}
	})

	first := r.doAll(t.Context(), 1, request{key: "key-9"})
	waittest.Eventually(t, "one is sent", func() bool { return r.metric(t, "rowlock_coalesce_batch_size_count") == 1 })
	left = r.doAll(ctx, 1, request{key: "key-1"})
	stays := r.doAll(t.Context(), 1, request{key: "key-2"})
	r.wantQueue(t, 2)
	close(gathered)
	want(t, first, 1, nil)
	want(t, stays, 1, nil)
	r.wantValue(t, "key-1", 0)
	r.wantValue(t, "key-2", 1)
}
