package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localpg"
)

// Cluster runs servers of one database, one of which is the primary.
type Cluster interface {
	// Move replaces the primary by another server as the action says, and returns when that one may be lost too. It calls
	// lost when the old primary answers no more, with the time at which it was ended.
	Move(ctx context.Context, a Action, lost func(at time.Time)) error
}

// Outage holds when a primary was ended, and when it was certain that it answers no more.
type Outage struct{ At, Lost time.Time }

// Pair runs a primary and a standby that take each other's place.
type Pair struct {
	holdBack time.Duration

	mu               sync.Mutex // held while they do
	primary, standby *localpg.Server
}

// StartPair starts a primary with a database, and its standby. The primary confirms a change when the standby has it;
// but with holdBack the standby is asynchronous, and away for so long before it is promoted.
func StartPair(ctx context.Context, database string, o localpg.Options, holdBack time.Duration) (_ *Pair, err error) {
	o.Settings = maps.Clone(o.Settings)
	maps.Copy(o.Settings, map[string]string{
		// For a standby that was away, and looks for its primary.
		"wal_keep_size": "512MB", "wal_retrieve_retry_interval": "100ms",
	})
	p := &Pair{holdBack: holdBack}
	if p.primary, err = local.StartPostgres(ctx, database, o); err != nil {
		return nil, err
	}
	if p.standby, err = localpg.StartStandby(ctx, p.primary, o); err == nil {
		err = p.synchronize(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop(ctx))
	}
	return p, nil
}

// URL returns the URL of a database, which names both servers and lets clients choose the primary.
func (p *Pair) URL(database string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return local.OnBoth(p.primary.URL(database), p.primary.Port(), p.standby.Port())
}

// Stop ends both servers.
func (p *Pair) Stop(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.standby != nil { // a primary that ends in order waits for it
		err = p.standby.Stop(ctx)
	}
	return errors.Join(err, p.primary.Stop(ctx))
}

// Move ends the primary by SIGKILL, promotes the standby, and makes the old primary its standby, by a copy. Only then
// does the new primary wait for one.
func (p *Pair) Move(ctx context.Context, _ Action, lost func(at time.Time)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holdBack > 0 {
		// A standby that comes back takes connections in the state of its last checkpoint, in which the services' roles must
		// have their passwords.
		if err := errors.Join(local.Send(ctx, p.primary.URL("postgres"), `CHECKPOINT`), p.catchUp(ctx),
			local.Send(ctx, p.standby.URL("postgres"), `CHECKPOINT`), p.standby.Kill()); err != nil {
			return err
		}
		Wait(ctx, p.holdBack)
	}

	at := time.Now()
	if err := p.primary.Crash(ctx); err != nil {
		return err
	}
	lost(at)
	if p.holdBack > 0 {
		if err := p.standby.Restart(ctx); err != nil {
			return err
		}
	}

	if err := p.standby.Promote(ctx); err != nil {
		return err
	}
	p.primary, p.standby = p.standby, p.primary
	if err := p.standby.Rejoin(ctx, p.primary); err != nil {
		return err
	}
	return p.synchronize(ctx)
}

// checkpointerReads is the time that the checkpointer may take to read the setting that makes sessions wait for a
// standby; no view shows it.
const checkpointerReads = 500 * time.Millisecond

// synchronize lets the primary wait for its standby, unless the pair is asynchronous, and returns when the standby has
// all that was confirmed before.
func (p *Pair) synchronize(ctx context.Context) error {
	if p.holdBack > 0 {
		return p.catchUp(ctx)
	}
	// The file of the setting goes with the cluster, and a standby must not wait for one when it is promoted.
	err := setNames(ctx, p.standby, "")
	if err == nil {
		err = setNames(ctx, p.primary, localpg.StandbyName)
	}
	if err == nil {
		err = p.await(ctx, `sync_state = 'sync'`)
	}
	if err != nil {
		return err
	}
	Wait(ctx, checkpointerReads)
	return p.catchUp(ctx)
}

// catchUp returns when the standby has all that the primary had confirmed.
func (p *Pair) catchUp(ctx context.Context) error {
	var now string
	err := local.Read(ctx, p.primary.URL("postgres"), `SELECT pg_current_wal_flush_lsn()::text`, &now)
	if err != nil {
		return err
	}
	return p.await(ctx, `replay_lsn >= `+pq.QuoteLiteral(now))
}

// setNames sets synchronous_standby_names.
func setNames(ctx context.Context, server *localpg.Server, names string) error {
	return local.Send(ctx, server.URL("postgres"),
		`ALTER SYSTEM SET synchronous_standby_names = `+pq.QuoteLiteral(names), `SELECT pg_reload_conf()`)
}

// standbyLimit bounds the wait for a standby, which may have to be sent much.
const standbyLimit = 30 * time.Second

// await returns when the condition holds for the standby in the primary's view of it.
func (p *Pair) await(ctx context.Context, condition string) error {
	ctx, cancel := context.WithTimeout(ctx, standbyLimit)
	defer cancel()
	query := `SELECT coalesce(bool_and(` + condition + `), false)
		FROM pg_stat_replication WHERE application_name = ` + pq.QuoteLiteral(localpg.StandbyName)
	for yes := false; ; {
		err := local.Read(ctx, p.primary.URL("postgres"), query, &yes)
		if yes || err != nil {
			return err
		}
		if !Wait(ctx, 10*time.Millisecond) {
			return fmt.Errorf("the standby has not %s: %w", condition, ctx.Err())
		}
	}
}
