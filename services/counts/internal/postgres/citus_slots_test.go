package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// missing is the value of a count that does not exist.
const missing = -1

// slotChange changes the count a, from 0, by one kind of statement.
type slotChange struct {
	change  func(ctx context.Context, s *postgres.Store) (value int64, err error)
	want    int64
	patient int64 // the attempt that waits for a locked count, behind brief ones; 0 when it is skipped
	keyed   bool
}

func (slotChange) any() bool       { return true }
func (c slotChange) waits() bool   { return c.patient > 0 }
func (c slotChange) withKey() bool { return c.keyed }

func slotChanges() map[string]slotChange {
	together := func(wait time.Duration, keys ...string) func(context.Context, *postgres.Store) (int64, error) {
		return func(ctx context.Context, s *postgres.Store) (value int64, err error) {
			var all []counting.Update
			for _, key := range keys {
				all = append(all, update(key, "a"))
			}
			answers, err := s.ApplyTogether(ctx, wait, all...)
			for _, a := range answers {
				if a.Err != nil || a.Locked || a.Replayed {
					return 0, fmt.Errorf("%+v, %w", a, a.Err)
				}
				value = a.Values[0]
			}
			return value, err
		}
	}
	set := func(key string) func(context.Context, *postgres.Store) (int64, error) {
		return func(ctx context.Context, s *postgres.Store) (int64, error) {
			v, replayed, err := s.Set(ctx, counting.Key{Value: key}, "a", 7)
			if err != nil {
				return 0, err
			}
			if stored, err := s.Find(ctx, "a"); err != nil || stored != v || replayed {
				return 0, fmt.Errorf("answered %v, replayed %t, stored %v, %w", v, replayed, stored, err)
			}
			return v.Current, nil
		}
	}
	return map[string]slotChange{
		"add":       {change: together(time.Minute, ""), want: 1, patient: 1},
		"add free":  {change: together(0, ""), want: 1},
		"keys":      {change: together(time.Minute, "k", ""), want: 2, patient: 1, keyed: true},
		"keys free": {change: together(0, "k", ""), want: 2, keyed: true},
		"set":       {change: set(""), want: 7, patient: 2},
		"keyed set": {change: set("k"), want: 7, patient: 2, keyed: true},
		"delete": {change: func(ctx context.Context, s *postgres.Store) (int64, error) {
			return missing, s.Delete(ctx, "a")
		}, want: missing, patient: 2},
	}
}

// slotTest holds what a test of a change needs.
type slotTest struct {
	slotChange

	s     *postgres.Store
	db    *sqlx.DB
	proxy *faultproxy.Proxy
}

// eachSlotChange runs a test for each of these kinds of statements, on a server with the count a.
func eachSlotChange(t *testing.T, of func(slotChange) bool, test func(t *testing.T, c slotTest)) {
	t.Helper()
	for name, c := range slotChanges() {
		if !of(c) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, proxy := apptest.OneServer(t, postgres.Migrations(), postgres.CreateForShards)
			s := openDistributed(t, dsn)
			mustCreate(t, s, "a")
			test(t, slotTest{c, s, dbtest.Dial(t, dsn), proxy})
		})
	}
}

// wantOnce makes the change, which is answered as applied and was applied once.
func (c slotTest) wantOnce(t *testing.T) {
	t.Helper()
	value, err := c.change(t.Context(), c.s)
	stored := read[int64](t, c.db, `SELECT coalesce(max(current_value), -1) FROM counts.count_values`)
	if err != nil || value != c.want || stored != c.want {
		t.Errorf("answered %d, stored %d, %v; want %d", value, stored, err, c.want)
	}
}

// wantNone makes the change, which is answered as not applied and has changed nothing.
func (c slotTest) wantNone(t *testing.T) {
	t.Helper()
	const state = `SELECT concat((SELECT v::text FROM counts.count_values v), ' keys ',
		(SELECT count(group_id) FROM counts.item_keys), ' results ', (SELECT count(results) FROM counts.slots))`
	before := read[string](t, c.db, state)
	_, err := c.change(t.Context(), c.s)
	if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.NotApplied {
		t.Errorf("answered %v, want not applied", err)
	}
	if after := read[string](t, c.db, state); after != before {
		t.Errorf("changed %s to %s", before, after)
	}
}

func read[T any](t *testing.T, db *sqlx.DB, query string) (value T) {
	t.Helper()
	if err := db.GetContext(t.Context(), &value, query); err != nil {
		t.Fatal(err)
	}
	return value
}

// A statement that arrives after a look-up has taken its attempt changes nothing. It is sent three times at most.
func TestLateOnShard(t *testing.T) {
	t.Parallel()
	eachSlotChange(t, slotChange.any, func(t *testing.T, c slotTest) {
		t.Helper()
		if err := c.s.SpendSlots(t.Context(), "a", postgres.MaxSends); err != nil {
			t.Fatal(err)
		}
		c.wantNone(t)
		c.wantOnce(t)
	})
}

// The answer gets lost, and that of the first look-up: the second one finds what the statement has stored, too.
func TestLostOnShard(t *testing.T) {
	t.Parallel()
	eachSlotChange(t, slotChange.any, func(t *testing.T, c slotTest) {
		t.Helper()
		c.proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("held AS MATERIALIZED"))
		c.proxy.Cut(faultproxy.AfterStatement, faultproxy.FIN, faultproxy.Matching("SET results = CASE"))
		c.wantOnce(t)
		if c.proxy.Cuts() != 2 {
			t.Errorf("%d cuts, want 2", c.proxy.Cuts())
		}
	})
}

// A look-up waits for the end of a statement that itself waits for its count, and finds what it has stored.
func TestInProgressOnShard(t *testing.T) {
	t.Parallel()
	eachSlotChange(t, slotChange.waits, func(t *testing.T, c slotTest) {
		t.Helper()
		holder := lock(t, c.db, "a")
		changed, lookedUp := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := c.change(t.Context(), c.s)
			changed <- err
		}()
		waitsFor(t, c.db, 200*time.Millisecond) // longer than a brief one
		slot := read[string](t, c.db, `SELECT id FROM counts.slots`)
		var stored pq.Int64Array
		go func() {
			lookedUp <- c.db.QueryRowContext(t.Context(), postgres.ResolveSlot, "a", slot, c.patient).Scan(&stored)
		}()
		apptest.WaitForBlocked(t, c.db, 2)
		holder.Rollback()
		if err := <-changed; err != nil {
			t.Error(err)
		}
		if err := <-lookedUp; err != nil || len(stored) == 0 {
			t.Errorf("the look-up found %v, %v", stored, err)
		}
	})
}

// The answer to the reservation of a key gets lost: nothing was applied, and the key is not taken.
func TestLostReservation(t *testing.T) {
	t.Parallel()
	eachSlotChange(t, slotChange.withKey, func(t *testing.T, c slotTest) {
		t.Helper()
		c.proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("INSERT INTO counts.item_keys"))
		c.wantNone(t)
		c.wantOnce(t)
	})
}

// Statements use a slot one after the other, until the answer of one is lost, or until the slot is so old that it may
// be deleted before a look-up. The look-up of a slot that was deleted proves nothing.
func TestSlotsAreReused(t *testing.T) {
	t.Parallel()
	dsn, proxy := apptest.OneServer(t, postgres.Migrations(), postgres.CreateForShards)
	s, db := openDistributed(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a")
	var value int64
	for _, step := range []struct {
		name     string
		before   func()
		unknown  bool
		attempts []int64 // of each slot
	}{
		{name: "first", attempts: []int64{1}},
		{name: "second", attempts: []int64{2}},
		{name: "lost", before: func() {
			proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("held AS MATERIALIZED"))
		}, attempts: []int64{3}},
		{name: "after the lost one", attempts: []int64{3, 1}},
		{name: "the slot is old", before: func() { s.AgeSlots(30 * time.Second) }, attempts: []int64{3, 1, 1}},
		{name: "after the old slot", attempts: []int64{3, 1, 2}},
		{name: "the slot was deleted", before: func() {
			apptest.Execute(t, db, `DELETE FROM counts.slots`)
		}, unknown: true},
		{name: "after the deleted slot", attempts: []int64{1}},
	} {
		if step.before != nil {
			step.before()
		}
		got, err := countingtest.Add(t.Context(), s, "a", 1)
		if outcome, _ := sqldb.OutcomeOf(err); step.unknown != (err != nil && outcome == sqldb.Unknown) {
			t.Errorf("%s: answered %d, %v", step.name, got, err)
		}
		if !step.unknown {
			value++
		}
		wantValue(t, s, "a", value)
		attempts := read[pq.Int64Array](t, db, `SELECT array_agg(attempt ORDER BY id) FROM counts.slots`)
		if !slices.Equal(attempts, step.attempts) {
			t.Errorf("%s: the slots' attempts are %v, want %v", step.name, attempts, step.attempts)
		}
	}
}
