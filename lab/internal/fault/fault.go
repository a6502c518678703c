// Package fault injects faults into running services: into their replicas, their
// connections, the rows that they want, and the servers that they are on. The package
// knows no service; a [Target] says what there is to break.
package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/pgbouncer"
)

// Action names one fault.
type Action string

// The actions.
const (
	Kill        Action = "kill -9"             // a replica
	Terminate   Action = "SIGTERM"             // a replica
	Backend     Action = "terminate backend"   // a connection, at the server
	CutReply    Action = "cut after statement" // the reply to the next write
	CutCommit   Action = "cut after COMMIT"    // the reply to the next COMMIT
	RestartDB   Action = "restart PostgreSQL"  // immediately, with recovery; MariaDB too
	RestartPool Action = "restart pgbouncer"   // its clients are cut off
	Failover    Action = "failover"            // the primary is killed
	Switchover  Action = "switchover"          // the primary hands over
)

// The actions on a cluster of Citus.
const (
	KillWorker      Action = "kill -9 a worker"               // which comes back after the event's time
	CutWorker       Action = "cut after a worker's statement" // the reply to the coordinator
	CutWorkerCommit Action = "cut after a worker's COMMIT"    // of one phase, or the second one
	MoveShard       Action = "move a shard"                   // to another worker and back
	AddWorker       Action = "add a worker"                   // and move shards there
)

// The actions that last for an event's time.
const (
	Latency   Action = "latency"    // for every message to the database
	BlackHole Action = "black hole" // nothing passes between service and database
	Stop      Action = "SIGSTOP"    // a replica
	LockRow   Action = "lock a row"
	Exhaust   Action = "exhaust connections" // the role may open none, and loses those it has
)

// The attacks, which last for an event's time. Package hostile has the general ones.
const (
	OneByte    Action = "one byte of a body"
	SlowUpload Action = "slow uploads"
	NotReading Action = "answers not read"
	CrossSite  Action = "cross-site requests"
	Malformed  Action = "malformed requests"
	LockedKey  Action = "calls for a locked key"
	Pages      Action = "pages read"
	Upload     Action = "normal uploads"
)

// Attack sends requests until ctx ends and returns how many.
type Attack func(ctx context.Context) int

// Event schedules an action.
type Event struct {
	At     time.Duration `json:"at_ns"` // since the window's start
	For    time.Duration `json:"for_ns,omitempty"`
	Action Action        `json:"action"`
	// Pick chooses the replica, or how a connection is cut, modulo what there is; for a
	// latency it is the upper bound in milliseconds.
	Pick int `json:"pick"`
}

// String returns the event as the schedule prints it.
func (e Event) String() string {
	return fmt.Sprintf("%.1fs %s (%d)", e.At.Seconds(), e.Action, e.Pick)
}

// Target describes one service to inject faults into.
type Target struct {
	Name     string
	Role     string            // that the replicas connect as
	Proxy    *faultproxy.Proxy // between replicas and PostgreSQL; nil on MariaDB
	Maria    *MariaDB          // nil on PostgreSQL
	Writes   []string          // one is a part of each statement whose reply is cut
	Replicas *local.Set
	Workers  *local.Set // nil when the service has none
	// Lock locks a row in the transaction and calls hold with the result.
	Lock func(ctx context.Context, tx *sqlx.Tx, hold Hold) error
	// Attacks are those that the service can be attacked by.
	Attacks map[Action]Attack

	mu   sync.Mutex
	done map[Action]int
	cuts int // the proxy's, when the count began
	// Of the replies of workers to their coordinator.
	statements, commits atomic.Int64
}

// Begin resets the count that Done returns.
func (t *Target) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = map[Action]int{}
	t.statements.Store(0)
	t.commits.Store(0)
	if t.Proxy != nil {
		t.cuts = t.Proxy.Cuts()
	}
}

// Done counts the actions that had a target since Begin. Replies that were cut count
// as CutReply, whichever statement they answered.
func (t *Target) Done() map[Action]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := maps.Clone(t.done)
	if t.Proxy != nil {
		done[CutReply] = t.Proxy.Cuts() - t.cuts
	}
	done[CutWorker], done[CutWorkerCommit] = int(t.statements.Load()), int(t.commits.Load())
	return done
}

func (t *Target) count(a Action, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done[a] += n
}

// Server is a database server that can be killed and started again.
type Server interface {
	// Kill ends the server at once.
	Kill() error
	// Restart starts it again, and returns when it takes connections.
	Restart(ctx context.Context) error
}

// Injector injects faults into services that share one PostgreSQL server.
type Injector struct {
	// DB is the services' database, by a role that administers theirs.
	DB *sqldb.DB
	// Servers are restarted by RestartDB.
	Servers []Server
	// Pooler is restarted by RestartPool; nil when there is none.
	Pooler *pgbouncer.Pooler
	// Cluster is moved by Failover and Switchover; nil where the database has one server.
	Cluster Cluster
	// Citus distributes the database; nil where nothing does.
	Citus *Citus

	mu      sync.Mutex
	outages []Outage
}

// Outages returns the outages since it was called last.
func (in *Injector) Outages() []Outage {
	in.mu.Lock()
	defer in.mu.Unlock()
	outages := in.outages
	in.outages = nil
	return outages
}

// move moves the cluster and notes when it was without a primary.
func (in *Injector) move(ctx context.Context, a Action) error {
	return in.Cluster.Move(ctx, a, func(at time.Time) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.outages = append(in.outages, Outage{At: at, Lost: time.Now()})
	})
}

// Inject carries the event out on all targets. A fault that lasts has ended when it
// returns, after e.For or the end of ctx. An action on a replica that is dead already is
// no error.
func (in *Injector) Inject(ctx context.Context, e Event, targets []*Target) error {
	err := each(targets, func(t *Target) error {
		if err := in.inject(ctx, e, t); err != nil {
			return fmt.Errorf("%s of %s: %w", e.Action, t.Name, err)
		}
		return nil
	})

	switch {
	case err == nil && e.Action == RestartDB:
		return each(in.Servers, func(s Server) error { return errors.Join(s.Kill(), s.Restart(ctx)) })
	case err == nil && e.Action == RestartPool:
		return in.Pooler.Restart(ctx)
	case err == nil && (e.Action == Failover || e.Action == Switchover):
		return in.move(ctx, e.Action)
	case err == nil && (e.Action == KillWorker || e.Action == MoveShard || e.Action == AddWorker):
		done, err := in.Citus.change(ctx, e)
		for _, t := range targets {
			for a, n := range done {
				t.count(a, n)
			}
		}
		return err
	}
	return err
}

// how returns in which way the event ends a connection.
func how(e Event) faultproxy.How { return []faultproxy.How{faultproxy.FIN, faultproxy.RST}[e.Pick%2] }

// when returns whether the event cuts the reply, or leaves the server alone with the statement.
func when(e Event) faultproxy.When {
	return []faultproxy.When{faultproxy.AfterStatement, faultproxy.DuringStatement}[e.Pick/2%2]
}

// each calls do for all of them at once and returns the first error.
func each[T any](all []T, do func(T) error) error {
	var group errgroup.Group
	for _, one := range all {
		group.Go(func() error { return do(one) })
	}
	return group.Wait()
}

func (in *Injector) inject(ctx context.Context, e Event, t *Target) error {
	switch e.Action {
	case Kill:
		t.signal(e, (*local.Replica).Kill)
	case Terminate:
		t.signal(e, (*local.Replica).Terminate)
	case Backend:
		return in.terminateBackend(ctx, t)
	case CutReply:
		t.Proxy.Cut(when(e), how(e), faultproxy.Matching(t.Writes...))
	case CutCommit:
		t.Proxy.Cut(faultproxy.AfterCommit, how(e))
	case CutWorker:
		in.Citus.cut(e, faultproxy.AfterStatement, faultproxy.Matching(t.Writes...), faultproxy.Counted(&t.statements))
	case CutWorkerCommit:
		in.Citus.cut(e, faultproxy.AfterCommit, faultproxy.Counted(&t.commits))
	case KillWorker, MoveShard, AddWorker: // counted when they are done
	case RestartDB, RestartPool, Failover, Switchover: // for all targets together
		t.count(e.Action, 1)
	case Latency:
		t.Proxy.Slow(time.Duration(e.Pick) * time.Millisecond)
		Wait(ctx, e.For)
		t.Proxy.Slow(0)

	case BlackHole:
		t.count(BlackHole, 1)
		t.Proxy.Pause()
		Wait(ctx, e.For)
		t.Proxy.Resume()

	case Stop:
		if one := pick(t.Replicas, e); one.Pause() == nil { // else it is dead
			t.count(Stop, 1)
			Wait(ctx, e.For)
			_ = one.Resume() // it may have been killed
		}

	case LockRow:
		return in.lock(ctx, t, e.For)
	case Exhaust:
		return in.exhaust(ctx, t, e.For)
	case OneByte, SlowUpload, NotReading, CrossSite, Malformed, LockedKey, Pages, Upload:
		if attack := t.Attacks[e.Action]; attack != nil {
			ctx, cancel := context.WithTimeout(ctx, e.For)
			defer cancel()
			t.count(e.Action, attack(ctx))
		}
	}
	return nil
}

// Wait waits for d; false when ctx ends first.
func Wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func pick(set *local.Set, e Event) *local.Replica {
	all := set.Replicas()
	return all[e.Pick%len(all)]
}

// signal ends a replica, and one of the service's workers if it has any.
func (t *Target) signal(e Event, end func(*local.Replica) error) {
	if end(pick(t.Replicas, e)) == nil { // else it is dead already
		t.count(e.Action, 1)
	}
	if t.Workers != nil {
		_ = end(pick(t.Workers, e)) // as above
	}
}

// terminateBackend ends one of the service's connections, one at work if there is any.
func (in *Injector) terminateBackend(ctx context.Context, t *Target) (err error) {
	var n int
	if t.Maria != nil {
		n, err = t.Maria.terminate(ctx, t.Role)
	} else {
		err = in.DB.GetContext(ctx, &n, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
			SELECT pid FROM pg_stat_activity WHERE usename = $1 AND datname = current_database()
			ORDER BY (state = 'idle'), random() LIMIT 1) victim`, t.Role)
	}
	t.count(Backend, n)
	return err
}

// adminTimeout bounds a change of a role, also where the server is silent.
const adminTimeout = 10 * time.Second

// exhaust takes the right to connect from the service's role for a while and ends its
// connections. The limit is committed before that: otherwise they would come back.
func (in *Injector) exhaust(ctx context.Context, t *Target, d time.Duration) error {
	limit := func(ctx context.Context, n int) error {
		ctx, cancel := context.WithTimeout(ctx, adminTimeout)
		defer cancel()
		statement := fmt.Sprintf(`ALTER ROLE %s CONNECTION LIMIT %d`, pq.QuoteIdentifier(t.Role), n)
		return local.Execute(ctx, in.DB, statement)
	}
	err := limit(ctx, 0)
	if err == nil {
		err = in.DB.GetContext(ctx, new(int), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = $1`, t.Role)
	}
	if err == nil {
		t.count(Exhaust, 1)
		Wait(ctx, d)
	}
	return errors.Join(err, limit(context.WithoutCancel(ctx), -1))
}

// Hold keeps a transaction open for the time of the fault if the statement has locked a
// row. Its parameters are the statement's results.
type Hold func(locked sql.Result, err error) error

// lock locks a row that the service's clients want, in a transaction that stays open.
func (in *Injector) lock(ctx context.Context, t *Target, d time.Duration) error {
	return in.DB.InTx(context.WithoutCancel(ctx), func(whole context.Context, tx *sqlx.Tx) error {
		// PostgreSQL 17 has one more limit that a transaction which waits may run into.
		_, err := tx.ExecContext(whole, `SELECT set_config(name, '0', true) FROM pg_settings
			WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`)
		if err != nil {
			return err
		}
		return t.Lock(whole, tx, func(locked sql.Result, err error) error {
			if err != nil {
				return err
			}
			n, err := locked.RowsAffected()
			if n > 0 {
				t.count(LockRow, 1)
				Wait(ctx, d)
			}
			return err
		})
	})
}

// MariaDB holds the server of a service that is not on PostgreSQL. No proxy stands
// between it and the replicas.
type MariaDB struct {
	Server *localmaria.Server
	DB     *sqldb.DB
}

// terminate ends one of the user's connections, one at work if there is any, and
// returns how many it ended.
func (m *MariaDB) terminate(ctx context.Context, user string) (int, error) {
	var id int64
	err := m.DB.GetContext(ctx, &id, `SELECT id FROM information_schema.processlist WHERE user = ?
		ORDER BY command = 'Sleep', rand() LIMIT 1`, user)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if local.Execute(ctx, m.DB, fmt.Sprintf("KILL CONNECTION %d", id)) != nil {
		return 0, nil //nolint:nilerr // it has just ended by itself
	}
	return 1, nil
}
