package prove

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
)

// act carries one event out. Errors that are the fault's own nature, such as a
// replica that is dead already, are none.
func (r *rig) act(ctx context.Context, e Event, work map[*column]Workload) error {
	switch e.Action {
	case RestartDB:
		return r.restartDatabase(ctx, work)
	case RestartPool:
		if r.pooler == nil {
			return errors.New("there is no pooler to restart")
		}
		for c := range work {
			c.note(RestartPool, 1)
		}
		return r.pooler.Restart(ctx)
	default:
	}
	errs := make([]error, len(r.columns))
	var all sync.WaitGroup
	for i, c := range r.columns {
		if work[c] == nil {
			continue // it has no part in this window
		}
		all.Go(func() {
			if err := r.actOn(ctx, c, e, work[c]); err != nil {
				errs[i] = fmt.Errorf("%s of %s: %w", e.Action, c.service.Name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *column) note(a Action, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[a] += n
}

// restartDatabase restarts every server that a service of the window is on.
func (r *rig) restartDatabase(ctx context.Context, work map[*column]Workload) error {
	restarts := map[any]func() error{}
	for c := range work {
		c.note(RestartDB, 1)
		if c.maria != nil {
			restarts[c.maria] = func() error { return c.maria.restart(ctx) }
			continue
		}
		restarts[r.system.Server] = func() error {
			if err := r.system.Server.Kill(); err != nil {
				return err
			}
			return r.system.Server.Restart(ctx)
		}
	}
	errs := make(chan error, len(restarts))
	for _, restart := range restarts {
		go func() { errs <- restart() }()
	}
	var all error
	for range restarts {
		all = errors.Join(all, <-errs)
	}
	return all
}

func (r *rig) actOn(ctx context.Context, c *column, e Event, w Workload) error {
	window := ctx
	ctx, cancel := context.WithTimeout(window, r.patience)
	defer cancel()
	victim := c.set.Replicas()[e.Pick%len(c.set.Replicas())]
	how := faultproxy.FIN
	if e.Pick%2 == 1 {
		how = faultproxy.RST
	}
	switch e.Action {
	case Kill:
		c.count(Kill, victim.Kill())
		c.forWorker(e, (*local.Replica).Kill)
	case Terminate:
		c.count(Terminate, victim.Terminate())
		c.forWorker(e, (*local.Replica).Terminate)
	case Backend:
		return r.terminateBackend(ctx, c)
	case CutReply:
		c.proxy.Cut(faultproxy.AfterStatement, how, faultproxy.Matching(writes(c.service.Name)))
	case CutCommit:
		c.proxy.Cut(faultproxy.AfterCommit, how)
	case LatencyOn:
		c.note(LatencyOn, 1)
		c.proxy.Slow(time.Duration(e.Pick) * time.Millisecond)
	case LatencyOff:
		c.proxy.Slow(0)
	case BlackHoleOn:
		c.note(BlackHoleOn, 1)
		c.proxy.Pause()
	case BlackHoleOff:
		c.proxy.Resume()
	case StopOn:
		c.count(StopOn, victim.Pause())
		r.mu.Lock()
		r.stopped[victim] = true
		r.mu.Unlock()
	case StopOff:
		r.resume(victim)
	case HoldOn:
		return r.hold(window, c, w)
	case HoldOff:
		return c.letGo(ctx)
	case ExhaustOn:
		return r.exhaust(ctx, c)
	case ExhaustOff:
		return r.allow(ctx, c)
	case RestartDB, RestartPool: // not a service's
	}
	return nil
}

// forWorker does the same to one of the service's workers, if it has any.
func (c *column) forWorker(e Event, do func(*local.Replica) error) {
	if c.workers == nil {
		return
	}
	_ = do(c.workers.Replicas()[e.Pick%workerProcesses]) // one that is dead already is no target
}

// count notes an action that succeeded; a replica that is dead already is no target.
func (c *column) count(a Action, err error) {
	if err == nil {
		c.note(a, 1)
	}
}

// writes is a part of the statements by which a service changes what its clients
// asked for.
func writes(service string) string {
	return map[string]string{
		serviceCounts: "update counts.count_values", servicePayments: "insert into payments.", serviceIidy: "iidy.lists",
		serviceEvents: "update events.status", servicePyggpot: "update pyggpot.pot",
	}[service]
}

func (r *rig) resume(victim *local.Replica) {
	_ = victim.Resume() // it may have been killed
	r.mu.Lock()
	delete(r.stopped, victim)
	r.mu.Unlock()
}

// terminateBackend ends one of the service's connections, one at work if there is any.
func (r *rig) terminateBackend(ctx context.Context, c *column) error {
	if c.maria != nil {
		n, err := c.maria.terminate(ctx, c.role)
		c.note(Backend, n)
		return err
	}
	var n int
	err := r.reader.GetContext(ctx, &n, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
		SELECT pid FROM pg_stat_activity WHERE usename = $1 AND datname = current_database()
		ORDER BY (state = 'idle'), random() LIMIT 1) victim`, c.role)
	if err != nil {
		return fmt.Errorf("terminate a backend: %w", err)
	}
	c.note(Backend, n)
	return nil
}

// hold locks a row that the service's clients want, in a transaction of a stranger.
func (r *rig) hold(ctx context.Context, c *column, w Workload) error {
	h := w.Hold(ctx) // what a workload then sends goes on while the row is held
	if h.Statement == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	// A transaction of database/sql would end with its context, and could not be bounded.
	conn, err := r.admin.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if _, err := conn.ExecContext(ctx, `BEGIN`); err != nil {
		return errors.Join(fmt.Errorf("begin: %w", err), hangUp(conn))
	}
	// The server may have a limit for strangers who do nothing for so long.
	_, err = conn.ExecContext(ctx, `SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN
		('idle_in_transaction_session_timeout', 'transaction_timeout', 'statement_timeout', 'lock_timeout')`)
	if err != nil {
		return errors.Join(fmt.Errorf("prepare the stranger's transaction: %w", err), hangUp(conn))
	}
	result, err := conn.ExecContext(ctx, h.Statement)
	if err != nil {
		return errors.Join(fmt.Errorf("lock a row: %w", err), hangUp(conn))
	}
	if n, err := result.RowsAffected(); err == nil && n > 0 {
		c.note(HoldOn, 1)
		if h.Locked != nil {
			h.Locked()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding, c.held = conn, h
	return nil
}

// hangUp closes the connection for good: the server rolls back what was not committed.
func hangUp(conn *sql.Conn) error {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it is what takes it out of the pool
	if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
		return fmt.Errorf("hang up: %w", err)
	}
	return nil
}

func (c *column) letGo(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holding == nil {
		return nil
	}
	if c.held.Released != nil {
		c.held.Released()
	}
	end := `ROLLBACK`
	if c.held.Commit {
		end = `COMMIT`
	}
	conn := c.holding
	c.holding = nil
	if _, err := conn.ExecContext(ctx, end); err != nil {
		return errors.Join(fmt.Errorf("let the row go: %w", err), hangUp(conn))
	}
	return hangUp(conn)
}

// exhaust leaves the service's role without a connection and without the right to open one.
func (r *rig) exhaust(ctx context.Context, c *column) error {
	c.note(ExhaustOn, 1)
	return r.execute(ctx, `ALTER ROLE `+pq.QuoteIdentifier(c.role)+` CONNECTION LIMIT 0`,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND usename = `+pq.QuoteLiteral(c.role))
}

func (r *rig) allow(ctx context.Context, c *column) error {
	return r.execute(ctx, `ALTER ROLE `+pq.QuoteIdentifier(c.role)+` CONNECTION LIMIT -1`)
}

// execute runs statements one by one, each in a transaction of its own: a limit must be
// seen before the connections go, or they come back.
func (r *rig) execute(ctx context.Context, statements ...string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	conn, err := r.admin.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("the administrator's statement: %w", err)
		}
	}
	return nil
}

// heal undoes everything that lasts. It does so after the run was interrupted, too, and
// gives a server up that does not answer.
func (r *rig) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*r.patience)
	defer cancel()
	var all error
	r.mu.Lock()
	stopped := slices.Collect(maps.Keys(r.stopped))
	r.mu.Unlock()
	for _, victim := range stopped {
		r.resume(victim)
	}
	for _, c := range r.columns {
		if c.maria != nil {
			continue
		}
		c.proxy.StopCutting()
		c.proxy.Slow(0)
		c.proxy.Resume()
		all = errors.Join(all, c.letGo(ctx), r.allow(ctx, c))
	}
	return all
}
