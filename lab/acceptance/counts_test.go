package acceptance

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// addrs are the APIs of all replicas.
func addrs(set *local.Set) []string {
	var list []string
	for _, r := range set.Replicas() {
		list = append(list, r.Status().API)
	}
	return list
}

// 100 clients increase one counter at the same moment: it ends at 100, and the
// answers are 1 to 100, each once.
func TestHundredIncreasesAtOnce(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"one replica": 1, "three replicas": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			set := counts(t, n, dsn, nil)
			c, apis := newClient(t), addrs(set)
			c.create(t, apis[0], "hot")

			const clients = 100
			got := make([]answer, clients)
			release := make(chan struct{})
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					<-release
					got[i] = c.change(t.Context(), apis[i%n], "hot", "increase", 0)
				})
			}
			close(release)
			wg.Wait()

			seen := map[int64]bool{}
			for _, a := range got {
				if a.outcome != acknowledged || a.value < 1 || a.value > clients || seen[a.value] {
					t.Errorf("answer %+v: not one of 1 to %d, or not for the first time", a, clients)
				}
				seen[a.value] = true
			}
			var stored int64
			err := dial(t, dsn).QueryRowContext(t.Context(), `SELECT current_value FROM counts.count_values WHERE item_id = 'hot'`).Scan(&stored)
			if err != nil || stored != clients {
				t.Errorf("stored %d, %v, want %d", stored, err, clients)
			}
		})
	}
}

// 20 clients change random, overlapping sets of counters by random amounts over
// three replicas: every sum is exact, and PostgreSQL has seen no deadlock.
func TestOverlappingRandomBatches(t *testing.T) {
	t.Parallel()
	for name, pooled := range map[string]bool{"direct": false, "through pgbouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			noticeDeadlocks(t, dsn)
			env := map[string]string{}
			through := dsn
			if pooled {
				through = dbtest.PgBouncer(t, dsn, 6)
				env["DB_POOLER"] = "transaction" // and the migrations run through it too
			}
			set := counts(t, 3, through, env)
			c, apis := newClient(t), addrs(set)
			ids := items(t, c, apis[0], 50)

			book := newLedger()
			whole := t.Context() // what was begun is brought to an end
			ctx, cancel := context.WithTimeout(whole, 10*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for ctx.Err() == nil {
						randomBatch(whole, c, apis, ids, book)
					}
				})
			}
			wg.Wait()
			book.check(t, c, apis[0], ids, false)
			book.wantAllAcknowledged(t, 1000)

			if err := set.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := deadlocks(t, dsn); got != 0 {
				t.Errorf("%d deadlocks", got)
			}
		})
	}
}

// noticeDeadlocks lets the database look for a deadlock when a lock was waited
// for 5 ms. A group waits 50 ms for a row before it goes on without it, so by
// default, a second, none would ever be seen.
func noticeDeadlocks(t *testing.T, dsn string) {
	t.Helper()
	conn, err := dial(t, dsn).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var name string
	if err := conn.QueryRowContext(t.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), `ALTER DATABASE `+pq.QuoteIdentifier(name)+` SET deadlock_timeout = '5ms'`); err != nil {
		t.Fatal(err)
	}
}

// randomBatch changes several counters at once, each through any replica, and waits for all answers.
func randomBatch(ctx context.Context, c *client, apis, ids []string, book *ledger) {
	var wg sync.WaitGroup
	for _, i := range rand.Perm(len(ids))[:5+rand.IntN(15)] {
		wg.Go(func() {
			amount := 1 + rand.Int64N(1000)
			verb, delta := "increase", amount
			if rand.IntN(2) == 0 {
				verb, delta = "decrease", -amount
			}
			book.note(ids[i], delta, c.change(ctx, apis[rand.IntN(len(apis))], ids[i], verb, amount))
		})
	}
	wg.Wait()
}

// deadlocks counts those of the database since it was made. Sessions report
// when they end, so all others are ended first.
func deadlocks(t *testing.T, dsn string) (n int64) {
	t.Helper()
	db := dial(t, dsn)
	eventually(t, "no other session is left", 10*time.Second, func() bool {
		var others int
		err := db.QueryRowContext(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&others)
		return err == nil && others == 0
	})
	err := db.QueryRowContext(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A stranger holds one row for 2 s: 40 clients on ten other counters get their
// 200 meanwhile. Those that increase the held one get theirs when it is free; of
// as many that set it, more than there are connections, some may be refused.
func TestAHeldRowDelaysItsOwnCallersOnly(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	set := counts(t, 3, dsn, nil)
	c, apis := newClient(t), addrs(set)
	ids := items(t, c, apis[0], 11)
	held, free := ids[5], append(append([]string{}, ids[:5]...), ids[6:]...)

	tx, err := dial(t, dsn).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM counts.count_values WHERE item_id = $1 FOR UPDATE`, held); err != nil {
		t.Fatal(err)
	}

	const waiting = 6
	waited := newLedger()
	var callers sync.WaitGroup
	for i := range waiting {
		callers.Go(func() { waited.note(held, 1, c.change(t.Context(), apis[i%len(apis)], held, "increase", 0)) })
	}
	setters := make([]answer, 40)
	for i := range setters {
		callers.Go(func() {
			addr := apis[i%len(apis)]
			if i%2 == 0 {
				setters[i] = c.change(t.Context(), addr, held, "reset", 0)
			} else {
				setters[i] = c.do(t.Context(), http.MethodPut, "http://"+addr+"/api/v1/internal/counts/"+held, `{"value":100}`)
			}
		})
	}
	eventually(t, "the held counter's callers wait for the row", 10*time.Second, func() bool { return waitingForLocks(t, dsn) >= len(apis) })

	book := newLedger()
	whole := t.Context()
	ctx, cancel := context.WithTimeout(whole, 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			id := free[i%len(free)]
			for ctx.Err() == nil {
				book.note(id, 1, c.change(whole, apis[rand.IntN(len(apis))], id, "increase", 0))
			}
		})
	}
	wg.Wait()
	if n := waited.count(acknowledged); n != 0 {
		t.Errorf("%d callers of the held counter were answered while it was held", n)
	}
	book.wantAllAcknowledged(t, 200) // all of them while the row was held: it still is
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	callers.Wait()
	waited.wantAllAcknowledged(t, waiting)
	book.check(t, c, apis[0], free, true)
	done := 0
	for i, a := range setters {
		switch {
		case a.status == http.StatusOK:
			done++
		case a.status != http.StatusServiceUnavailable || a.code != "NOT_APPLIED":
			t.Errorf("setter %d of the held counter: %+v", i, a)
		}
	}
	if done == 0 {
		t.Error("nobody who set the held counter got through when it was free")
	}
	if got := c.value(t, apis[0], held); got < 0 || got > 100+waiting {
		t.Errorf("the held counter is %d, which no order of the changes gives", got)
	}
	t.Logf("%d of %d who set the held counter got through", done, len(setters))
}

// waitingForLocks counts the sessions of the database that wait for a lock.
func waitingForLocks(t *testing.T, dsn string) (n int) {
	t.Helper()
	err := dial(t, dsn).QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
