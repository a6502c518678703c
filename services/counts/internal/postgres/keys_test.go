package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// update returns an update by 1 of each of these counts.
func update(key string, ids ...counting.ItemID) counting.Request {
	u := counting.Request{Key: counting.Key{Value: key}}
	for _, id := range ids {
		u.Changes = append(u.Changes, counting.Change{ItemID: id, Delta: 1})
	}
	return u
}

// Two replicas get a new key and one that has expired, again and again: of each one request is applied, and all get its
// answer.
func TestReplicasShareAKey(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	replicas := []*replica{openPatient(t, dsn), openPatient(t, dsn)}
	db := dbtest.Dial(t, dsn)
	mustCreate(t, replicas[0], "a", "b")

	const rounds = 20
	for round := range rounds {
		var firsts [2]atomic.Int64
		waittest.Together(t, 8, func(i int) error {
			n := i / 2 % 2
			u, count := update([]string{"expired", strconv.Itoa(round)}[n], "a", "a"), int64(2*round)
			if n == 1 {
				u.Changes[0].ItemID, u.Changes[1].ItemID = "b", "b"
			}
			got, err := replicas[i%2].Change(t.Context(), u)
			if err == nil && !slices.Equal(got.Values, []int64{count + 1, count + 2}) {
				err = fmt.Errorf("round %d: %+v", round, got)
			}
			if !got.Replayed {
				firsts[n].Add(1)
			}
			return err
		})

		if expired, fresh := firsts[0].Load(), firsts[1].Load(); expired != 1 || fresh != 1 {
			t.Fatalf("round %d: %d and %d requests were the first, want 1", round, expired, fresh)
		}
		apptest.Execute(t, db, `UPDATE counts.idempotency_keys SET expires_at = clock_timestamp()`)
	}
	wantValue(t, replicas[0], "a", 2*rounds)
	wantValue(t, replicas[0], "b", 2*rounds)
}

// The repeat of a request that was refused commits a write, although it changes no count. So its commit waits for the
// synchronous standbys, which then have the refusal: the first wait for them may have been cancelled.
func TestRepeatsOfARefusalCommitAWrite(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	for commits := range 3 {
		if n := apptest.One[int](t, db, `SELECT coalesce(sum(attempt), 0) FROM counts.slots`); n != commits {
			t.Errorf("%d requests have written %d slots", commits, n)
		}
		got, err := s.Change(t.Context(), update("k", "missing"))
		if !errors.Is(err, counting.ErrNotFound) || got.Replayed != (commits > 0) {
			t.Errorf("request %d: %+v, %v", commits, got, err)
		}
	}
}

// Values are those after the wait for the counts, and are stored so.
func TestGroupOfUpdatesSeesTheNewValues(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a", "b", "gone", "full")
	holder := apptest.Hold(t, db, `UPDATE counts.count_values SET current_value = 1000 WHERE item_id = 'a'`)
	holder.Execute(`DELETE FROM counts.count_values WHERE item_id = 'gone'`)
	holder.Execute(`UPDATE counts.count_values SET current_value = 9223372036854775807 WHERE item_id = 'full'`)
	group := []counting.Request{
		update("k", "a"), update("", "b", "a", "a"), update("", "a"), update("l", "b"),
		update("m", "b", "gone"), update("n", "b", "full"), update("", "full", "b"),
	}
	answers := make(chan []*counting.Answer, 1)
	go func() {
		all, err := s.store.ChangeTogether(t.Context(), time.Minute, group...)
		if err != nil {
			t.Error(err)
		}
		answers <- all
	}()
	apptest.WaitForBlocked(t, db, 1)
	holder.Commit()
	got := <-answers
	for i, want := range [][]int64{{1001}, {1, 1002, 1003}, {1004}, {2}} {
		if got[i].Err() != nil || !slices.Equal(got[i].Values, want) {
			t.Errorf("request %d got %+v, want %v", i, got[i], want)
		}
	}
	for i, want := range map[int]error{4: counting.ErrNotFound, 5: counting.ErrOverflow, 6: counting.ErrOverflow} {
		if !errors.Is(got[i].Err(), want) || got[i].Index != map[bool]int{true: 0, false: 1}[i == 6] {
			t.Errorf("request %d got %+v, want %v", i, got[i], want)
		}
	}
	again, err := s.Change(t.Context(), group[0])
	if err != nil || !again.Replayed || !slices.Equal(again.Values, []int64{1001}) {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	wantValue(t, s, "a", 1004)
	wantValue(t, s, "b", 2)
}

// A key that another session is taking delays only its own request: not the count's other callers, and no statement
// keeps the count locked meanwhile.
func TestLockedKeyDelaysOnlyItsOwnRequest(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a", "b")
	holder := apptest.Hold(t, db, `INSERT INTO counts.idempotency_keys (key, fingerprint, answer, expires_at)
		VALUES ('taken', '', '{}', '-infinity')`)
	blocked := inBackground(2, func(i int) error {
		_, err := s.Change(t.Context(), []counting.Request{update("taken", "a"), update("taken", "b", "a")}[i])
		return err
	})
	apptest.WaitForBlocked(t, db, 1)
	for i := range 50 {
		for n, u := range []counting.Request{update("", "a"), update(strconv.Itoa(i), "a"), update("", "b", "a")} {
			got, err := s.Change(t.Context(), u)
			if want := int64(3*i + n + 1); err != nil || got.Values[len(got.Values)-1] != want {
				t.Fatalf("beside the locked key: %+v, %v; want %d", got, err, want)
			}
		}
	}
	waittest.Eventually(t, "nothing is held between two tries", func() bool {
		var rows []int
		return db.SelectContext(t.Context(), &rows, `SELECT 1 FROM counts.count_values FOR UPDATE NOWAIT`) == nil
	})
	wantNone(t, blocked)
	holder.Rollback()
	for range cap(blocked) {
		if err := <-blocked; err != nil && !errors.Is(err, counting.ErrKeyConflict) {
			t.Error(err)
		}
	}
}

// The answers to groups get lost, or the groups do: each change is counted once, its answer is the first one and not
// called a replay, and a repeat gets it too.
func TestLostGroups(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		when  faultproxy.When
		every int
	}{
		"answer": {faultproxy.AfterCommit, 3}, "commit": {faultproxy.BeforeCommit, 3},
		"answer to a statement": {faultproxy.AfterStatement, 19}, "statement": {faultproxy.BeforeStatement, 19},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, direct, proxy := openLossy(t)
			mustCreate(t, direct, "a", "b", "c")
			if _, err := direct.Create(t.Context(), "full", math.MaxInt64); err != nil {
				t.Fatal(err)
			}
			proxy.CutEvery(tc.every, tc.when, faultproxy.RST)
			const callers, rounds = 16, 20
			added := make([][]int64, callers)
			waittest.Together(t, callers, func(c int) error {
				for round := range rounds {
					if c%4 == 0 {
						v, err := untilApplied(func() (int64, error) { return countingtest.Add(t.Context(), s, "c", 1) })
						if err != nil {
							return err
						}
						added[c] = append(added[c], v)
						continue
					}
					key := fmt.Sprintf("%d-%d", c, round)
					u, want := update(key, "a", "b", "a"), error(nil)
					switch c % 8 {
					case 1:
						u.Key.Value = ""
					case 2:
						u, want = update(key, "a", "missing"), counting.ErrNotFound
					case 3:
						u, want = update(key, "b", "full"), counting.ErrOverflow
					}
					first, err := untilApplied(func() (counting.Answer, error) { return s.Change(t.Context(), u) })
					if !errors.Is(err, want) || first.Replayed {
						return fmt.Errorf("%s: %+v, %w; want %w", key, first, err, want)
					}
					if u.Key.Value == "" {
						continue
					}
					again, err := direct.Change(t.Context(), u)
					if !errors.Is(err, want) || !again.Replayed || !slices.Equal(again.Values, first.Values) {
						return fmt.Errorf("%s again: %+v, %w; the first was %+v, %w", key, again, err, first, want)
					}
				}
				return nil
			})
			wantValue(t, direct, "a", 8*2*rounds)
			wantValue(t, direct, "b", 8*rounds)
			wantValue(t, direct, "c", 4*rounds)
			for i, v := range slices.Sorted(slices.Values(slices.Concat(added...))) {
				if v != int64(i+1) {
					t.Fatalf("value %d stands where %d should", v, i+1)
				}
			}
			if proxy.Cuts() == 0 {
				t.Error("nothing was cut: the test proved nothing")
			}
		})
	}
}
