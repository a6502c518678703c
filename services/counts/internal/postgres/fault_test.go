package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// openLossy opens a store whose connections the proxy cuts, and one beside the proxy.
func openLossy(t *testing.T) (lossy, direct *postgres.Store, proxy *faultproxy.Proxy) {
	t.Helper()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy = faultproxy.New(t, dsn)
	return openPatient(t, proxy.DSN(dsn)), openPatient(t, dsn), proxy
}

// Every fifth statement's answer, or the statement itself, gets lost, those that look up what became of another among
// them: each increase is answered with the value of its own step, and none is made twice.
func TestLostGroups(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]faultproxy.When{
		"answer": faultproxy.AfterStatement, "statement": faultproxy.BeforeStatement,
	} {
		for end, how := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				s, direct, proxy := openLossy(t)
				mustCreate(t, direct, "a", "b")
				if _, err := direct.Create(t.Context(), "full", 1<<63-1); err != nil {
					t.Fatal(err)
				}
				proxy.CutEvery(5, when, how)
				const callers, rounds = 16, 40
				var mu sync.Mutex
				values := map[counting.ItemID][]int64{}
				waittest.Together(t, callers, func(c int) error {
					for range rounds {
						id := []counting.ItemID{"a", "b", "missing", "full"}[c%4]
						v, err := countingtest.Add(t.Context(), s, id, 1)
						if want := map[counting.ItemID]error{
							"missing": counting.ErrNotFound, "full": counting.ErrOverflow,
						}[id]; !errors.Is(err, want) {
							return fmt.Errorf("%s: %w, want %w", id, err, want)
						}
						mu.Lock()
						values[id] = append(values[id], v)
						mu.Unlock()
					}
					return nil
				})
				for _, id := range []counting.ItemID{"a", "b"} {
					wantValue(t, direct, id, callers/4*rounds)
					slices.Sort(values[id])
					for i, v := range values[id] {
						if v != int64(i+1) {
							t.Fatalf("%s: value %d stands where %d should", id, v, i+1)
						}
					}
				}
				if proxy.Cuts() == 0 {
					t.Error("nothing was cut: the test proved nothing")
				}
			})
		}
	}
}

// The answer to a change that is not grouped gets lost, or the change itself, and then the answer to the look-up: the
// change is made once and answered as if nothing had happened.
func TestLostChanges(t *testing.T) {
	t.Parallel()
	changes := map[string]struct {
		change func(ctx context.Context, s *postgres.Store) (counting.CountValue, error)
		want   error // of the change when it is made a second time
	}{
		"create": {func(ctx context.Context, s *postgres.Store) (counting.CountValue, error) {
			return s.Create(ctx, "new", 5)
		}, counting.ErrExists},
		"set": {func(ctx context.Context, s *postgres.Store) (counting.CountValue, error) {
			return countingtest.Set(ctx, s, "old", 7)
		}, nil},
		"reset": {func(ctx context.Context, s *postgres.Store) (counting.CountValue, error) {
			return countingtest.Set(ctx, s, "old", 0)
		}, nil},
		"delete": {func(ctx context.Context, s *postgres.Store) (counting.CountValue, error) {
			return counting.CountValue{}, s.Delete(ctx, "old")
		}, counting.ErrNotFound},
	}
	for name, c := range changes {
		for lost, when := range map[string]faultproxy.When{
			"answer": faultproxy.AfterStatement, "statement": faultproxy.BeforeStatement,
		} {
			t.Run(name+" "+lost, func(t *testing.T) {
				t.Parallel()
				s, direct, proxy := openLossy(t)
				mustCreate(t, direct, "old")
				proxy.Cut(when, faultproxy.RST, faultproxy.Matching("WITH changed"))
				proxy.Cut(faultproxy.AfterStatement, faultproxy.FIN, faultproxy.Matching("ON CONFLICT (id)"))
				answer, err := c.change(t.Context(), s)
				if err != nil || proxy.Cuts() != 2 {
					t.Fatalf("%v after %d cuts", err, proxy.Cuts())
				}
				if name != "delete" {
					if v, err := direct.Find(t.Context(), answer.ItemID); err != nil || v != answer {
						t.Errorf("answered %v, stored %v (%v)", answer, v, err)
					}
				}
				if _, err := c.change(t.Context(), direct); !errors.Is(err, c.want) {
					t.Errorf("a second time: %v, want %v", err, c.want)
				}
			})
		}
	}
}

// The connection ends while the server is still committing the group: the look-up waits for the end.
func TestLostWhileItCommits(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db, proxy := dbtest.Dial(t, dsn), faultproxy.New(t, dsn)
	s := openPatient(t, proxy.DSN(dsn))
	mustCreate(t, s, "a")
	// The server neither gives up nor notices that its client is gone.
	apptest.Execute(t, db, `CREATE FUNCTION counts.linger() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.results IS NOT NULL THEN
				PERFORM set_config('lock_timeout', '0', true), set_config('client_connection_check_interval', '0', true);
				PERFORM pg_advisory_xact_lock(1);
			END IF;
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER linger AFTER INSERT ON counts.journal FOR EACH ROW EXECUTE FUNCTION counts.linger()`)
	holder := apptest.Hold(t, db, `SELECT pg_advisory_xact_lock(1)`)
	type answer struct {
		value int64
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		v, err := countingtest.Add(t.Context(), s, "a", 1)
		answers <- answer{v, err}
	}()
	apptest.WaitForBlocked(t, db, 1)
	proxy.Drop(faultproxy.RST)
	apptest.WaitForBlocked(t, db, 2) // the lost statement, and the look-up behind it
	if len(answers) != 0 {
		t.Fatalf("it was answered %v", <-answers)
	}
	holder.Rollback()
	if a := <-answers; a.value != 1 || a.err != nil {
		t.Errorf("answered %d, %v", a.value, a.err)
	}
	wantValue(t, s, "a", 1)
}

// The connection ends while the change still waits for its row: the change is sent again, and the first one, which gets
// the row before it, can no longer be made.
func TestLostWhileItWaits(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db, proxy := dbtest.Dial(t, dsn), faultproxy.New(t, dsn)
	s := openPatient(t, proxy.DSN(dsn))
	mustCreate(t, s, "a")
	// The server does not notice that its client is gone. The sequence counts changes that are undone, too.
	apptest.Execute(t, db, `CREATE TABLE counts.made (n bigserial)`,
		`CREATE FUNCTION counts.note() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF TG_LEVEL = 'STATEMENT' THEN
				PERFORM set_config('client_connection_check_interval', '0', true);
			ELSE
				INSERT INTO counts.made DEFAULT VALUES;
			END IF;
			RETURN NEW;
		END $$`,
		`CREATE TRIGGER begin BEFORE UPDATE ON counts.count_values FOR EACH STATEMENT EXECUTE FUNCTION counts.note()`,
		`CREATE TRIGGER locked BEFORE UPDATE ON counts.count_values FOR EACH ROW EXECUTE FUNCTION counts.note()`)
	holder := lock(t, db, "a")
	answer := make(chan error, 1)
	go func() {
		_, err := countingtest.Set(t.Context(), s, "a", 7)
		answer <- err
	}()
	waitsFor(t, db, 100*time.Millisecond) // longer than the first, brief wait
	proxy.Drop(faultproxy.RST)
	apptest.WaitForBlocked(t, db, 2) // the lost statement, and the one that is sent in its place
	holder.Rollback()
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	var made struct{ Kept, Tried int }
	if err := db.GetContext(t.Context(), &made, `SELECT count(*) AS kept, max(last_value) AS tried
		FROM counts.made_n_seq, counts.made`); err != nil || made.Kept != 1 || made.Tried != 2 {
		t.Errorf("%+v, %v; want one change of two", made, err)
	}
	wantValue(t, s, "a", 7)
}

// The database stays away: only then is the outcome unknown, and said to be.
func TestLostAndTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	direct := openStore(t, dsn, sqldb.PoolerNone)
	mustCreate(t, direct, "a")
	proxy := faultproxy.New(t, dsn)
	s, _ := openSeen(t, proxy.DSN(dsn), sqldb.PoolerNone, 50*time.Millisecond)
	wantValue(t, s, "a", 0) // by the one connection that there is
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST)
	proxy.Refuse()
	_, err := countingtest.Add(t.Context(), s, "a", 1)
	if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.Unknown {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	wantValue(t, direct, "a", 1)
}

// A row that is missing from the journal proves nothing when it may have been deleted again; one that is there does.
func TestLostForTooLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost faultproxy.When
		want int64
	}{"answer": {faultproxy.AfterStatement, 1}, "statement": {faultproxy.BeforeStatement, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			direct := openStore(t, dsn, sqldb.PoolerNone)
			mustCreate(t, direct, "a")
			proxy := faultproxy.New(t, dsn)
			s, _ := openJournal(t, proxy.DSN(dsn), sqldb.PoolerNone, 2*time.Second, time.Microsecond)
			proxy.Cut(c.lost, faultproxy.RST)
			_, err := countingtest.Add(t.Context(), s, "a", 1)
			if outcome, ours := sqldb.OutcomeOf(err); (err == nil) != (c.want == 1) || ours && outcome != sqldb.Unknown {
				t.Errorf("got %v", err)
			}
			wantValue(t, direct, "a", c.want)
		})
	}
}

// The first answer to a key cannot be read: every repeat of a group gets the error, not only the first of them.
func TestFirstAnswerCannotBeRead(t *testing.T) {
	t.Parallel()
	s, direct, proxy := openLossy(t)
	mustCreate(t, direct, "a")
	update := counting.Update{Key: counting.Key{Value: "k"}, Changes: []counting.Change{{ItemID: "a", Delta: 1}}}
	if _, err := direct.Apply(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("SELECT counts.idempotency_keys"),
		faultproxy.Times(1000))
	waittest.Together(t, 32, func(int) error {
		got, err := s.Apply(t.Context(), update)
		if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.NotApplied {
			return fmt.Errorf("got %+v, %w", got, err)
		}
		return nil
	})
}
