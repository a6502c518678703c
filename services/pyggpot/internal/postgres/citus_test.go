package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot/pottest"
)

// passSuite: two replicas pass the suite.
func passSuite(t *testing.T, c cluster) {
	t.Helper()
	pottest.Exercise(t, c.oneAtATime())
}

// changeWhileRepliesGetLost: every seventh reply of the servers gets lost, to any statement. What is answered was made
// once, and what is answered as not made was not.
func changeWhileRepliesGetLost(t *testing.T, c cluster) {
	t.Helper()
	stores := []replica{c.open(t, shortLeases), c.open(t, shortLeases)}
	for _, pots := range []int{1, 6} {
		ids := make([]pot.ID, pots)
		for i := range ids {
			ids[i] = stores[0].mustCreate(t, fmt.Sprintf("lossy %d of %d", i, pots), 1_000_000)
		}
		before := c.cuts()
		for _, server := range c.servers {
			server.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("pyggpot.pot"))
		}
		acknowledged, unknown := contend(t, stores, ids)
		cuts := c.stopCutting(t, before)
		var stored int64
		for _, id := range ids {
			p, err := stores[1].Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			stored += p.Contents.Total()
		}
		t.Logf("%d pots: %d replies cut, %d changes acknowledged, %d unknown, %d stored", pots, cuts, acknowledged, unknown,
			stored)
		if stored < acknowledged || stored > acknowledged+unknown || acknowledged == 0 || unknown > acknowledged/20 {
			t.Errorf("%d pots: acknowledged %d, unknown %d, stored %d", pots, acknowledged, unknown, stored)
		}
	}
}

// shortLeases lets a pot come free soon whose release was lost.
func shortLeases(o *Options) { o.TTL = time.Second }

// contend adds a coin to the pots by many callers, and returns how many of them were told that it is there, and how
// many that it may be.
func contend(t *testing.T, stores []replica, ids []pot.ID) (acknowledged, unknown int64) {
	t.Helper()
	const callers, rounds = 24, 40
	var made, open atomic.Int64
	waittest.Together(t, callers, func(caller int) error {
		for round := range rounds {
			err := stores[caller%len(stores)].Change(t.Context(), ids[(caller+round*round)%len(ids)], addGold(1))
			outcome, ours := sqldb.OutcomeOf(err)
			switch {
			case err == nil:
				made.Add(1)
			case ours && outcome == sqldb.Unknown:
				open.Add(1)
			case !ours && !errors.Is(err, pot.ErrLocked):
				return err
			}
		}
		return nil
	})
	return made.Load(), open.Load()
}

// leasePots: a pot that stays leased is tried Retries times more, an expired lease is taken over, a pot whose
// holder is writing is had when that is done, and a lock on its row is waited for no longer than DB_LOCK_TIMEOUT, which
// is not that of the workers' sessions.
func leasePots(t *testing.T, c cluster) {
	t.Helper()
	const retries = 3
	r := c.open(t, func(o *Options) {
		o.Retries, o.RetryWait, o.Limits.LockTimeout = retries, 100*time.Millisecond, 300*time.Millisecond
	})
	id := mustCreate(t, r, 10)
	ofPot := fmt.Sprintf(` WHERE id = %d`, id)
	const lease = `UPDATE pyggpot.pot SET lock = '3c2a1fd2-9b6c-4a58-a8d9-6f6f0e5b2d10', lock_expire_time = '2999-01-01'`
	const expire = `UPDATE pyggpot.pot SET lock_expire_time = '2000-01-01'`
	apptest.Execute(t, c.db, lease+ofPot)
	if err := r.Change(t.Context(), id, addGold(1)); !errors.Is(err, pot.ErrLocked) {
		t.Errorf("a leased pot: %v", err)
	}
	if held := r.seen.Conflicts(t, contention.Held); held != retries+1 {
		t.Errorf("%g times held", held)
	}
	apptest.Execute(t, c.db, expire+ofPot)
	if err := r.Change(t.Context(), id, addGold(1)); err != nil || r.seen.Conflicts(t, contention.TakenOver) != 1 {
		t.Errorf("an expired lease: %v", err)
	}

	apptest.Execute(t, c.db, lease+ofPot)
	patient := c.open(t, func(o *Options) { o.RetryWait = time.Hour })
	holder := apptest.Hold(t, c.db, `UPDATE pyggpot.pot SET coins = 4, denominations = '{100}', counts = '{4}',
		lock = NULL, lock_expire_time = NULL`+ofPot)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- patient.Change(ctx, id, addGold(1)) }()
	time.Sleep(200 * time.Millisecond) // until it waits, or else it is had at once
	holder.Commit()
	if err := <-done; err != nil {
		t.Errorf("a pot whose holder was writing: %v", err)
	}
	c.wantTotal(t, 5)

	locked := apptest.Hold(t, c.db, `SELECT FROM pyggpot.pot`+ofPot+` FOR UPDATE`)
	begin := time.Now()
	err := r.Change(t.Context(), id, addGold(1))
	if waited := time.Since(begin); err == nil || unknown(err) || waited > 3*time.Second {
		t.Errorf("a locked row: %v after %s", err, waited)
	}
	locked.Rollback()
	c.wantTotal(t, 5)
}

// refuseStaleHolders: a holder whose lease has expired, was taken over or was released changes nothing.
func refuseStaleHolders(t *testing.T, c cluster) {
	t.Helper()
	r, other := c.open(t), c.open(t)
	const release = `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL WHERE id = %d`
	const expire = `UPDATE pyggpot.pot SET lock_expire_time = '2000-01-01' WHERE id = %d`
	for name, meanwhile := range map[string]struct {
		statement string
		takeOver  int64 // coins that another holder adds
	}{"expired": {expire, 0}, "taken over": {expire, 3}, "released": {release, 0}} {
		id := r.mustCreate(t, "stale "+name, 10)
		stale := r.mustLease(t, id, addGold(1))
		c.execute(t, meanwhile.statement, id)
		if n := meanwhile.takeOver; n > 0 {
			if err := other.Change(t.Context(), id, addGold(n)); err != nil {
				t.Fatal(err)
			}
		}
		results, err := r.change(t.Context(), coalesce.Pass{Wait: time.Second}, []*queue{stale})
		if err != nil || !errors.Is(results[0], errLost) {
			t.Errorf("%s: %v (%v)", name, results, err)
		}
	}
	c.wantTotal(t, 3)
}

// execute executes a statement, whose %d is the pot.
func (c cluster) execute(t *testing.T, statement string, id pot.ID) {
	t.Helper()
	apptest.Execute(t, c.db, fmt.Sprintf(statement, id))
}

// resolveByThePot: a pot says what became of a change whose answer was lost, whatever happened to it since, as
// long as it remembers so many changes.
func resolveByThePot(t *testing.T, c cluster) {
	t.Helper()
	type want int
	const (
		applied want = iota
		refused
		open
	)
	lost := &sqldb.Error{Outcome: sqldb.Unknown, Reason: sqldb.Connection}
	const expire = `UPDATE pyggpot.pot SET lock_expire_time = '2000-01-01' WHERE id = %d`
	r, other := c.open(t), c.open(t)
	for name, tt := range map[string]struct {
		earlier, later int // changes of others
		made, expired  bool
		want           want
	}{
		"made":                                {made: true, want: applied},
		"made, others followed":               {earlier: 3, made: true, later: maxChanges - 1, want: applied},
		"made, too many followed":             {earlier: 3, made: true, later: maxChanges, want: open},
		"still leased":                        {earlier: 1, want: refused},
		"expired":                             {expired: true, want: refused},
		"taken over":                          {earlier: 2, expired: true, later: 1, want: refused},
		"taken over, the first changes":       {expired: true, later: maxChanges - 1, want: refused},
		"taken over by many":                  {earlier: 2, expired: true, later: maxChanges, want: open},
		"taken over by many, with none first": {expired: true, later: maxChanges, want: open},
	} {
		id := r.mustCreate(t, strings.ReplaceAll(name, ",", " -"), 100)
		changes := func(n int) {
			for range n {
				if err := other.Change(t.Context(), id, addGold(1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		changes(tt.earlier)
		q := r.mustLease(t, id, addGold(1))
		late := *q
		if tt.made {
			results, err := r.change(t.Context(), coalesce.Pass{SkipLocked: true}, []*queue{q})
			if err != nil || results[0] != nil {
				t.Fatal(results, err)
			}
			q.lease = late.lease
		}
		if tt.expired {
			c.execute(t, expire, id)
		}
		changes(tt.later)
		got, err := applied, r.resolve(t.Context(), []*queue{q}, lost)[0]
		if unknown(err) {
			got = open
		} else if err != nil {
			got = refused
		}
		if got != tt.want || q.lease != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !tt.made { // the server may execute the lost statement now
			results, err := r.change(t.Context(), coalesce.Pass{Wait: time.Second}, []*queue{&late})
			if err != nil || !errors.Is(results[0], errLost) {
				t.Errorf("%s, a late change: %v (%v)", name, results, err)
			}
		}
		want := int64(tt.earlier + tt.later)
		if tt.made {
			want++
		}
		if p, err := r.Find(t.Context(), id); err != nil || p.Contents.Total() != want {
			t.Errorf("%s: %+v (%v), want %d coins", name, p, err, want)
		}
	}
	if err := r.resolve(t.Context(), []*queue{{id: 1 << 30, lease: &lease{}}}, lost)[0]; !unknown(err) {
		t.Errorf("a pot that is gone: %v", err)
	}
}

// loseReplies: an answer or a statement is lost at any step. The change is made once or not at all, and
// the caller learns which.
func loseReplies(t *testing.T, c cluster) {
	t.Helper()
	r := c.open(t, shortLeases)
	id := mustCreate(t, r, 1000)
	var coins int64
	const before, after = faultproxy.BeforeStatement, faultproxy.AfterStatement
	for name, tt := range map[string]struct {
		cuts    map[string]faultproxy.When // by the statement's text
		applied bool
	}{
		"acquisition, answer":         {map[string]faultproxy.When{"taken": after}, true},
		"acquisition, statement":      {map[string]faultproxy.When{"taken": before}, true},
		"change, answer":              {map[string]faultproxy.When{"fenced": after}, true},
		"change, statement":           {map[string]faultproxy.When{"fenced": before}, false},
		"change and look-up, answer":  {map[string]faultproxy.When{"fenced": after, "revoked": after}, true},
		"look-up, statement":          {map[string]faultproxy.When{"fenced": before, "revoked": before}, false},
		"look-up, answer of a denial": {map[string]faultproxy.When{"fenced": before, "revoked": after}, false},
	} {
		for range 3 {
			earlier := c.cuts()
			for text, when := range tt.cuts {
				c.cut(when, text)
			}
			err := r.Change(t.Context(), id, addGold(1))
			outcome, known := sqldb.OutcomeOf(err)
			if tt.applied && err != nil || !tt.applied && (!known || outcome != sqldb.NotApplied) {
				t.Errorf("%s: %v", name, err)
			}
			if tt.applied {
				coins++
			}
			if n := c.stopCutting(t, earlier); n < len(tt.cuts) {
				t.Errorf("%s: %d cuts", name, n)
			}
			c.wantTotal(t, coins)
		}
	}
}

// A server that does not answer keeps the pots of another one waiting for nothing.
func TestAHungServerDelaysItsOwnPots(t *testing.T) {
	t.Parallel()
	dsn, server := apptest.OneServer(t, Migrations(), distributable()...)
	c := cluster{dsn, dbtest.Dial(t, dsn), []*faultproxy.Proxy{server}}
	r := c.open(t, func(o *Options) { o.Limits.Share = contention.NewShare(8, nil) }) // two for the callers of one pot
	const pots = 40
	for i := range pots {
		r.mustCreate(t, strconv.Itoa(i), 1000)
	}
	var hung, others []pot.ID
	for server, ids := range []*[]pot.ID{&hung, &others} {
		if err := c.db.SelectContext(t.Context(), ids, `SELECT p.id FROM pyggpot.pot p JOIN pg_dist_placement s
			ON s.shardid = get_shard_id_for_distribution_column('pyggpot.pot', p.id::text) AND s.groupid = $1`,
			server+1); err != nil || len(*ids) < 10 {
			t.Fatalf("%d of %d pots are on one server: %v", len(*ids), pots, err)
		}
	}
	apptest.Execute(t, c.db, `CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN PERFORM pg_sleep(3); RETURN NEW; END $$`,
		`CREATE TRIGGER hang BEFORE UPDATE ON pyggpot.pot FOR EACH ROW WHEN (NEW.id IN (`+
			strings.Trim(strings.ReplaceAll(fmt.Sprint(hung), " ", ","), "[]")+`)) EXECUTE FUNCTION hang()`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, id := range hung {
		go func() { _ = r.Change(ctx, id, addGold(1)) }()
	}
	waittest.Eventually(t, "statements hang", func() bool {
		var n int
		err := c.db.GetContext(t.Context(), &n, `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event = 'PgSleep' AND datname = current_database()`)
		return err == nil && n >= 2
	})
	asked := time.Now()
	for _, id := range others {
		begin := time.Now()
		if err := r.Change(t.Context(), id, addGold(1)); err != nil || time.Since(begin) > time.Second {
			t.Errorf("a pot of the other server: %v after %s", err, time.Since(begin))
		}
	}
	waittest.Eventually(t, "the pot's lease is late", func() bool { return time.Since(asked) > stalledAfter })
	const callers = 20
	var crowded atomic.Int64
	waittest.Together(t, callers, func(int) error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := r.Change(ctx, hung[0], addGold(1)); errors.Is(err, contention.ErrCrowded) {
			crowded.Add(1)
		}
		return nil
	})
	if n := crowded.Load(); n < callers-2 {
		t.Errorf("%d of %d callers of a pot that hangs are refused", n, callers)
	}
}

// planStatements: each statement goes to one worker as a whole. Only there lock_timeout counts, the lock is taken
// before the clock is read, and a commit is the worker's alone.
func planStatements(t *testing.T, c cluster) {
	t.Helper()
	const id, by = `1`, `'3c2a1fd2-9b6c-4a58-a8d9-6f6f0e5b2d10'::uuid`
	for statement, arguments := range map[string][]string{
		acquireOnShardFree:    {id, by, "1000", "'10'"},
		acquireOnShardWaiting: {id, by, "1000", "'10'"},
		writeOnShardFree:      {id, by, "1", "'{1}'::integer[]", "'{1}'::integer[]", "'10'", "'{}'::uuid[]"},
		writeOnShardWaiting:   {id, by, "1", "'{1}'::integer[]", "'{1}'::integer[]", "'10'", "'{}'::uuid[]"},
		resolveOnShardSQL:     {id, by, by, "'10'"},
		releaseOnShardSQL:     {id, by, "'10'"},
		nameSQL:               {"'pot'", id, "0"},
		createOnShardSQL:      {id, "'pot'", "10", by},
		findOnShardSQL:        {id},
		findNameSQL:           {"'pot'"},
	} {
		for i, a := range slices.Backward(arguments) {
			statement = strings.ReplaceAll(statement, fmt.Sprintf("$%d", i+1), a)
		}
		var lines []string
		err := c.db.SelectContext(t.Context(), &lines, `EXPLAIN (VERBOSE, COSTS OFF) `+statement)
		plan := strings.Join(lines, "\n")
		timeouts := strings.Count(statement, "set_config")
		task := plan[strings.Index(plan, "->  Task")+1:]
		if err != nil || !strings.Contains(plan, "Task Count: 1") || strings.Contains(plan, "Subplan") ||
			timeouts == 1 && !strings.Contains(task, "InitPlan 1 (returns $0)") {
			t.Errorf("%s\n%s\n%v", statement, plan, err)
		}
	}
}
