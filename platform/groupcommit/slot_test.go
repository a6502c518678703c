package groupcommit_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Answers get lost before and after COMMIT. No caller is told that an outcome is unknown, and the sums are exact.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]faultproxy.When{
		"before COMMIT": faultproxy.BeforeCommit, "after COMMIT": faultproxy.AfterCommit,
		"after a statement": faultproxy.AfterStatement, "during a statement": faultproxy.DuringStatement,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const callers, adds = 16, 20
			dsn := database(t)
			proxy := faultproxy.New(t, dsn)
			r := start(t, dsn, proxy.DSN(dsn))
			proxy.CutEvery(4, when, faultproxy.RST)

			var acknowledged atomic.Int64
			waittest.Together(t, callers, func(int) error {
				for range adds {
					_, err := r.Do(t.Context(), request{key: "key-0"})
					if outcome, ours := sqldb.OutcomeOf(err); ours && outcome == sqldb.NotApplied {
						continue
					}
					if err != nil {
						return err
					}
					acknowledged.Add(1)
				}
				return nil
			})
			if proxy.Cuts() == 0 {
				t.Error("nothing was cut: the test proved nothing")
			}
			if n := r.value(t, "key-0"); n != acknowledged.Load() {
				t.Errorf("the counter is %d, %d were acknowledged", n, acknowledged.Load())
			}
		})
	}
}

// The look-up waits for a session that may still commit, and then tells its answers.
func TestLookUpWaitsForTheSession(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	proxy := faultproxy.New(t, dsn)
	r := start(t, dsn, proxy.DSN(dsn))
	if _, err := r.Do(t.Context(), request{key: "key-0"}); err != nil { // makes the slot
		t.Fatal(err)
	}

	// Another session has the slot's row, as the lost session has before its COMMIT.
	hold := apptest.Hold(t, r.direct, `SELECT FROM rig.slots FOR UPDATE`)
	proxy.Cut(faultproxy.AfterCommit, faultproxy.FIN)
	answer := r.doAll(t, 1, request{key: "key-0"})
	apptest.WaitForBlocked(t, r.direct, 1)
	hold.Rollback()
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if n := r.value(t, "key-0"); n != 2 {
		t.Errorf("the counter is %d", n)
	}
}

// A group whose attempt a look-up has taken arrives late and changes nothing.
func TestLateGroup(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	var slot atomic.Pointer[groupcommit.Attempt]
	r := start(t, dsn, dsn, func(c *groupcommit.Config[string, request, int64]) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			first := slot.CompareAndSwap(nil, a)
			if first { // another replica's look-up, or this one's, was quicker
				const taken = `UPDATE rig.slots SET attempt = $2, answers = NULL WHERE id = $1`
				return errors.Join(takeElsewhere(ctx, c.DB, taken, a), add(ctx, s, a, group))
			}
			return add(ctx, s, a, group)
		}
	})
	n, err := r.Do(t.Context(), request{key: "key-0"})
	if n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if n := r.value(t, "key-0"); n != 1 {
		t.Errorf("the counter is %d: the late group has changed it", n)
	}
}

// takeElsewhere runs a statement on another connection.
func takeElsewhere(ctx context.Context, db *sqldb.DB, statement string, a *groupcommit.Attempt) error {
	var none []int
	return db.Repeatable().SelectContext(ctx, &none, statement+` RETURNING 1`, a.Slot, a.Number)
}

// A slot that is gone proves nothing: a lost answer stays unknown, and the next group has another slot.
func TestSlotIsGone(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	proxy := faultproxy.New(t, dsn)
	r := start(t, dsn, proxy.DSN(dsn))
	if _, err := r.Do(t.Context(), request{key: "key-0"}); err != nil {
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
	_, err := r.Do(t.Context(), request{key: "key-0"})
	if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.Unknown {
		t.Errorf("got %v, want an unknown outcome", err)
	}
}

// A group that the server refuses has changed nothing, its slot included, and the next one uses that again.
func TestARefusalKeepsTheSlot(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	r := start(t, dsn, dsn)
	for range 5 {
		if _, err := r.Do(t.Context(), request{key: "full"}); err == nil {
			t.Error("a counter beyond its limit is accepted")
		}
	}
	if n, err := r.Do(t.Context(), request{key: "key-0"}); n != 1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}

	var slots int
	if err := r.direct.GetContext(t.Context(), &slots, `SELECT count(*) FROM rig.slots`); err != nil || slots != 1 {
		t.Errorf("%d slots were made, %v", slots, err)
	}
}

// Slots that were not used for their time to live are deleted, those in use are not.
func TestOldSlotsAreDeleted(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	r := start(t, dsn, dsn)
	if _, err := r.Do(t.Context(), request{key: "key-0"}); err != nil {
		t.Fatal(err)
	}
	apptest.Execute(t, r.direct, `INSERT INTO rig.slots SELECT gen_random_uuid(), 7, NULL, now() - interval '1 hour'
		FROM generate_series(1, 1200)`)
	if err := r.slots.CleanAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := r.direct.GetContext(t.Context(), &left, `SELECT count(*) FROM rig.slots`); err != nil || left != 1 {
		t.Errorf("%d slots are left, %v", left, err)
	}
	if n, err := r.Do(t.Context(), request{key: "key-0"}); n != 2 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.slots.Run(over, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

// A caller that leaves while the answer of its group is lost may repeat its request: the group is sent again for the
// others alone.
func TestWhoHasLeftIsNotSentAgain(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	proxy := faultproxy.New(t, dsn)
	ctx, leave := context.WithCancel(t.Context())
	left, gathered := make(chan error, 1), make(chan struct{})
	var sends [][]request
	r := start(t, dsn, proxy.DSN(dsn), func(c *groupcommit.Config[string, request, int64]) {
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			sends = append(sends, slices.Clone(group))
			<-gathered
			if len(group) == 2 {
				leave()
				if err := <-left; !errors.Is(err, groupcommit.ErrUnknown) {
					t.Errorf("the caller that left was told %v", err)
				}
				proxy.Cut(faultproxy.BeforeCommit, faultproxy.FIN)
			}
			return add(ctx, s, a, group)
		}
	})
	first := make(chan error, 1)
	go func() {
		_, err := r.Do(t.Context(), request{key: "key-9"})
		first <- err
	}()
	waittest.Eventually(t, "one is sent", func() bool { return r.metric(t, "rowlock_coalesce_batch_size_count") == 1 })
	stays := make(chan error, 1)
	go func() {
		_, err := r.Do(ctx, request{key: "key-1"})
		left <- err
	}()
	go func() {
		_, err := r.Do(t.Context(), request{key: "key-2"})
		stays <- err
	}()
	waittest.Eventually(t, "two wait", func() bool { return r.metric(t, "rowlock_coalesce_queue_length") == 2 })
	close(gathered)
	if err := errors.Join(<-first, <-stays); err != nil {
		t.Error(err)
	}

	if one, two := r.value(t, "key-1"), r.value(t, "key-2"); one != 0 || two != 1 {
		t.Errorf("the counter of the one that left is %d, of the other %d; sent were %v", one, two, sends)
	}
}
