package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// of returns an update of a caller.
func of(caller string, u counting.Update) counting.Update {
	u.Key.Caller = caller
	return u
}

// One of two replicas identifies callers, the other does not yet: a request and its repeats on both are applied once,
// and all get one answer.
func TestReplicasAreSwitched(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	replicas := []*postgres.Store{openPatient(t, dsn), openPatient(t, dsn)}
	mustCreate(t, replicas[0], "a", "set")
	const rounds, callers = 30, 8
	caller := []string{"", "shop"}
	for round := range rounds {
		var firsts, sets atomic.Int64
		waittest.Together(t, callers, func(i int) error {
			u := of(caller[i%2], update(fmt.Sprint("add", round), "a", "a"))
			got, err := replicas[i%2].Apply(t.Context(), u)
			if want := int64(2*round + 1); err == nil && !slices.Equal(got.Values, []int64{want, want + 1}) {
				return fmt.Errorf("round %d: %+v", round, got)
			}
			if err != nil {
				return err
			}
			if !got.Replayed {
				firsts.Add(1)
			}
			k := counting.Key{Caller: caller[i%2], Value: fmt.Sprint("set", round)}
			if _, replayed, err := replicas[i%2].Set(t.Context(), k, "set", 1); err != nil || replayed {
				return err
			}
			sets.Add(1)
			return nil
		})
		if firsts.Load() != 1 || sets.Load() != 1 {
			t.Fatalf("round %d: %d additions and %d sets were the first, want 1", round, firsts.Load(), sets.Load())
		}
	}
	wantValue(t, replicas[0], "a", 2*rounds)
}

// The key of another owner expires at the moment when a caller, which is taking its own row beside it, takes the key
// once more, on another replica: there the other's place is free, and the own row not yet to be seen.
func TestAnOwnerHasOneRow(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db := dbtest.Dial(t, dsn)
	first, second := openPatient(t, dsn), openPatient(t, dsn)
	mustCreate(t, first, "a", "b")
	for _, key := range []string{"k", "z"} {
		if _, err := first.Apply(t.Context(), of("B", update(key, "b"))); err != nil {
			t.Fatal(err)
		}
	}
	holder := apptest.Hold(t, db, `INSERT INTO counts.idempotency_keys
		(caller, key, fingerprint, group_id, position, expires_at) VALUES ('A', 'z', '', gen_random_uuid(), 0, '-infinity')`)
	apply := func(ctx context.Context, s *postgres.Store, group ...counting.Update) <-chan []postgres.Answer {
		answers := make(chan []postgres.Answer, 1)
		go func() {
			all, err := s.ApplyTogether(ctx, time.Minute, group...)
			if err != nil {
				t.Error(err)
			}
			answers <- all
		}()
		return answers
	}
	k, z := of("A", update("k", "a")), of("A", update("z", "a"))
	firsts := apply(t.Context(), first, k, z)
	apptest.WaitForBlocked(t, db, 1)
	apptest.Execute(t, db, `UPDATE counts.idempotency_keys SET expires_at = clock_timestamp() WHERE owner = 'B'`)
	seconds := apply(t.Context(), second, k)
	set := make(chan error, 1)
	go func() {
		_, replayed, err := second.Set(t.Context(), k.Key, "a", 100)
		if err == nil && !replayed {
			err = errors.New("it was applied")
		}
		set <- err
	}()
	apptest.WaitForBlocked(t, db, 3)
	holder.Rollback()
	for _, a := range <-firsts {
		if a.Err != nil || a.Replayed || a.Locked {
			t.Errorf("the first requests got %+v", a)
		}
	}
	for _, a := range <-seconds {
		if a.Err != nil || !a.Replayed || !slices.Equal(a.Values, []int64{1}) {
			t.Errorf("the second request got %+v, want the first answer", a)
		}
	}
	if err := <-set; err != nil {
		t.Errorf("the set with the key: %v, want the first answer", err)
	}
	wantValue(t, first, "a", 2)
}

// A caller's key that another replica is taking is waited for wherever it stands, and no count is locked meanwhile.
func TestALockedKeyOfACallerIsWaitedFor(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a")
	for _, caller := range []string{"", "shop"} {
		key := "taken by " + caller
		holder := apptest.Hold(t, db, `INSERT INTO counts.idempotency_keys
			(caller, key, fingerprint, group_id, position, expires_at) VALUES ($1, $2, '', gen_random_uuid(), 0, '-infinity')`,
			caller, key)
		if caller != "" { // it stands beside another owner's
			if _, err := s.Apply(t.Context(), of("other", update(key, "a"))); err != nil {
				t.Fatal(err)
			}
		}
		blocked := make(chan error, 1)
		go func() {
			_, err := s.Apply(t.Context(), of("shop", update(key, "a")))
			blocked <- err
		}()
		apptest.WaitForBlocked(t, db, 1)
		waitsFor(t, db, 100*time.Millisecond)
		apptest.Execute(t, db, `SELECT FROM counts.count_values FOR UPDATE NOWAIT`)
		if len(blocked) != 0 {
			t.Errorf("%s: the request was answered: %v", key, <-blocked)
		}
		holder.Rollback()
		if err := <-blocked; err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	wantValue(t, s, "a", 3)
}
