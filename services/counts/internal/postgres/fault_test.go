package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// openLossy opens a store whose connections the proxy cuts, and one beside the proxy.
func openLossy(t *testing.T) (lossy, direct *replica, proxy *faultproxy.Proxy) {
	t.Helper()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy = faultproxy.New(t, dsn)
	return openPatient(t, proxy.DSN(dsn)), openPatient(t, dsn), proxy
}

// untilApplied repeats a change that was surely not applied, as its caller would: a connection ended in the middle of a
// transaction.
func untilApplied[T any](change func() (T, error)) (T, error) {
	for {
		v, err := change()
		if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != sqldb.NotApplied {
			return v, err
		}
	}
}

// The answer to a change that is not grouped gets lost, or the change itself, and then the answer to the look-up: the
// change is made once and answered as if nothing had happened.
func TestLostChanges(t *testing.T) {
	t.Parallel()
	changes := map[string]struct {
		change func(ctx context.Context, s *replica) (counting.CountValue, error)
		want   error // of the change when it is made a second time
	}{
		"create": {func(ctx context.Context, s *replica) (counting.CountValue, error) {
			return s.Create(ctx, "new", 5)
		}, counting.ErrExists},
		"set": {func(ctx context.Context, s *replica) (counting.CountValue, error) {
			return countingtest.Set(ctx, s, "old", 7)
		}, nil},
		"delete": {func(ctx context.Context, s *replica) (counting.CountValue, error) {
			return counting.CountValue{}, s.Delete(ctx, "old")
		}, counting.ErrNotFound},
	}
	for name, c := range changes {
		for lost, when := range map[string]faultproxy.When{
			"answer": faultproxy.AfterCommit, "commit": faultproxy.BeforeCommit,
		} {
			t.Run(name+" "+lost, func(t *testing.T) {
				t.Parallel()
				s, direct, proxy := openLossy(t)
				mustCreate(t, direct, "old")
				proxy.Cut(when, faultproxy.RST)
				proxy.Cut(faultproxy.AfterStatement, faultproxy.FIN, faultproxy.Matching("attempt <= $2"))
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

// The connection ends while the add still waits for its row: it holds its slot, so that the look-up waits for its end
// and answers what it has made of the count.
func TestLostWhileItWaits(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	db, proxy := dbtest.Dial(t, dsn), faultproxy.New(t, dsn)
	s := openPatient(t, proxy.DSN(dsn))
	mustCreate(t, s, "a")
	// The server neither gives up nor notices that its client is gone.
	apptest.Execute(t, db, `CREATE FUNCTION counts.deaf() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM set_config('lock_timeout', '0', true), set_config('client_connection_check_interval', '0', true);
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER deaf BEFORE UPDATE ON counts.count_values FOR EACH STATEMENT EXECUTE FUNCTION counts.deaf()`)
	holder := lock(t, db, "a")
	type result struct {
		value int64
		err   error
	}
	results := make(chan result, 1)
	go func() {
		v, err := countingtest.Add(t.Context(), s, "a", 1)
		results <- result{v, err}
	}()
	apptest.WaitForBlocked(t, db, 1)
	proxy.Drop(faultproxy.RST)
	apptest.WaitForBlocked(t, db, 2) // the lost statement, and the look-up behind it
	holder.Rollback()
	if got := <-results; got.value != 1 || got.err != nil {
		t.Errorf("answered %+v, want 1", got)
	}
	wantValue(t, s, "a", 1)
}
