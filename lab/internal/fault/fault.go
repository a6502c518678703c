// Package fault injects faults into running services: into their replicas, their
// connections, the rows that they want, and the servers that they are on. The package
// knows no service; a [Target] says what there is to break.
package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lib/pq"
	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/dbtest/pgbouncer"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Action names one fault, or the end of one.
type Action string

// The actions. Those that end in "On" last until their "Off" or [Injector.Heal].
const (
	Kill         Action = "kill -9"             // a replica
	Terminate    Action = "SIGTERM"             // a replica
	Backend      Action = "terminate backend"   // a connection, at the server
	CutReply     Action = "cut after statement" // the reply to the next write
	CutCommit    Action = "cut after COMMIT"    // the reply to the next COMMIT
	RestartDB    Action = "restart PostgreSQL"  // immediately, with recovery; MariaDB too
	RestartPool  Action = "restart pgbouncer"   // its clients are cut off
	LatencyOn    Action = "latency on"          // for every message to the database
	LatencyOff   Action = "latency off"
	BlackHoleOn  Action = "black hole on" // nothing passes between service and database
	BlackHoleOff Action = "black hole off"
	StopOn       Action = "SIGSTOP" // a replica
	StopOff      Action = "SIGCONT" // the same replica
	LockOn       Action = "lock a row"
	LockOff      Action = "unlock the row"
	ExhaustOn    Action = "exhaust connections" // the role may open none, and loses those it has
	ExhaustOff   Action = "allow connections"
)

// Event schedules an action.
type Event struct {
	At     time.Duration `json:"at_ns"` // since the window's start
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
	Writes   string            // a part of the statements whose replies are cut
	Replicas *local.Set
	Workers  *local.Set // nil when the service has none
	// Lock prepares the row that LockOn locks.
	Lock func(ctx context.Context) Lock

	mu      sync.Mutex
	done    map[Action]int
	cuts    int          // the proxy's, when the count began
	release func() error // ends the transaction that LockOn has left open; nil when there is none
}

// Begin starts the count that Done returns anew.
func (t *Target) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = map[Action]int{}
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
	return done
}

func (t *Target) count(a Action, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done[a] += n
}

// Injector injects faults into services that share one PostgreSQL server.
type Injector struct {
	// DB is the services' database, by a role that administers theirs.
	DB *sqldb.DB
	// Server is restarted by RestartDB.
	Server *localpg.Server
	// Pooler is restarted by RestartPool; nil when there is none.
	Pooler *pgbouncer.Pooler
	// Timeout bounds what is done to one service.
	Timeout time.Duration
}

// Inject carries the event out on all targets. An action on a replica that is dead
// already, or that has no lasting effect, is no error.
func (in *Injector) Inject(ctx context.Context, e Event, targets []*Target) error {
	err := each(targets, func(t *Target) error {
		if err := in.inject(ctx, e, t); err != nil {
			return fmt.Errorf("%s of %s: %w", e.Action, t.Name, err)
		}
		return nil
	})
	switch {
	case err == nil && e.Action == RestartDB:
		return in.restartServers(ctx, targets)
	case err == nil && e.Action == RestartPool:
		return in.Pooler.Restart(ctx)
	}
	return err
}

// each calls do for all of them at once and returns the first error.
func each[T any](all []T, do func(T) error) error {
	var group errgroup.Group
	for _, one := range all {
		group.Go(func() error { return do(one) })
	}
	return group.Wait() //nolint:wrapcheck // do says what failed
}

func (in *Injector) inject(ctx context.Context, e Event, t *Target) error {
	how := faultproxy.FIN
	if e.Pick%2 == 1 {
		how = faultproxy.RST
	}
	switch e.Action {
	case Kill:
		t.signal(e, (*local.Replica).Kill)
	case Terminate:
		t.signal(e, (*local.Replica).Terminate)
	case Backend:
		return in.terminateBackend(ctx, t)
	case CutReply:
		t.Proxy.Cut(faultproxy.AfterStatement, how, faultproxy.Matching(t.Writes))
	case CutCommit:
		t.Proxy.Cut(faultproxy.AfterCommit, how)
	case RestartDB, RestartPool: // for all targets together
		t.count(e.Action, 1)
	case LatencyOn:
		t.count(e.Action, 1)
		t.Proxy.Slow(time.Duration(e.Pick) * time.Millisecond)
	case LatencyOff:
		t.Proxy.Slow(0)
	case BlackHoleOn:
		t.count(e.Action, 1)
		t.Proxy.Pause()
	case BlackHoleOff:
		t.Proxy.Resume()
	case StopOn:
		if pick(t.Replicas, e).Pause() == nil { // else it is dead
			t.count(e.Action, 1)
		}
	case StopOff:
		_ = pick(t.Replicas, e).Resume() // it may have been killed
	case LockOn:
		return in.lock(ctx, t)
	case LockOff:
		return t.unlock()
	case ExhaustOn:
		t.count(e.Action, 1)
		return in.exhaust(ctx, t)
	case ExhaustOff:
		return in.limitConnections(ctx, t, -1)
	}
	return nil
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

// restartServers kills and restarts every server that a target is on.
func (in *Injector) restartServers(ctx context.Context, targets []*Target) error {
	type server interface {
		Kill() error
		Restart(ctx context.Context) error
	}
	servers := map[server]bool{}
	for _, t := range targets {
		if t.Maria != nil {
			servers[t.Maria.Server] = true
		} else {
			servers[in.Server] = true
		}
	}
	return each(slices.Collect(maps.Keys(servers)), func(s server) error {
		if err := s.Kill(); err != nil {
			return err
		}
		return s.Restart(ctx)
	})
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

// exhaust takes the right to connect from the service's role, then ends its connections.
// The limit is committed first: otherwise they would come back.
func (in *Injector) exhaust(ctx context.Context, t *Target) error {
	if err := in.limitConnections(ctx, t, 0); err != nil {
		return err
	}
	return in.DB.GetContext(ctx, new(int), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND usename = $1`, t.Role)
}

func (in *Injector) limitConnections(ctx context.Context, t *Target, limit int) error {
	ctx, cancel := context.WithTimeout(ctx, in.Timeout)
	defer cancel()
	return local.Execute(ctx, in.DB, fmt.Sprintf(`ALTER ROLE %s CONNECTION LIMIT %d`, pq.QuoteIdentifier(t.Role), limit))
}

// Heal ends every fault that lasts, also after ctx has ended.
func (in *Injector) Heal(ctx context.Context, targets []*Target) error {
	ctx = context.WithoutCancel(ctx)
	return each(targets, func(t *Target) error {
		if t.Replicas != nil {
			for _, one := range t.Replicas.Replicas() {
				_ = one.Resume() // no effect on one that runs
			}
		}
		if t.Maria != nil {
			return nil
		}
		t.Proxy.StopCutting()
		t.Proxy.Slow(0)
		t.Proxy.Resume()
		return errors.Join(t.unlock(), in.limitConnections(ctx, t, -1))
	})
}
