package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	// placesKnown bounds the places whose shard is remembered: 20 MB at most.
	placesKnown = 10_000
	// defaultPermits lets one shard of a server wait for a row while another is busy.
	defaultPermits = 2
	// notDistributable is what Citus answers to a statement for several shards.
	notDistributable = "0A000"
)

// shared is what the committers of all shards have in common.
type shared struct {
	metrics *metrics
	tracer  trace.Tracer // nil where tracing is off
	waiting atomic.Int64 // calls that were not sent, in queues and lanes
}

// permits bound the groups under way on one server of a cluster, so that a server which does not answer leaves the
// pool's connections to others. Nil permits, of one server alone, bound nothing: Limits.InFlight does.
type permits struct{ groups, lanes *semaphore.Weighted }

func newPermits(n int) *permits {
	return &permits{semaphore.NewWeighted(int64(n)), semaphore.NewWeighted(int64(max(n/2, 1)))}
}

// group waits for the permit of a group, and returns the function that gives it back.
func (p *permits) group() (release func()) {
	if p == nil {
		return func() {}
	}
	return acquire(p.groups)
}

// lane waits for the permit of a round of the lanes, and returns the function that gives it back.
func (p *permits) lane() (release func()) {
	if p == nil {
		return func() {}
	}
	return acquire(p.lanes)
}

func acquire(of *semaphore.Weighted) (release func()) {
	_ = of.Acquire(context.Background(), 1) // each sending ends within Limits.Timeout
	return func() { of.Release(1) }
}

// distributed reports whether each shard has a committer of its own.
func (c Config[K, Q, R]) distributed() bool { return c.Slots != nil && c.Slots.shards != nil }

// shardOf returns the shard of a place; there is one on one server. Its errors are NotApplied.
func (s *Slots) shardOf(ctx context.Context, place string) (sqldb.Shard, error) {
	if s.shards == nil {
		return sqldb.Shard{}, nil
	}
	shards, err := s.shards.Of(ctx, []string{place})
	if err != nil {
		return sqldb.Shard{}, err
	}
	return shards[0], nil
}

// committerOf returns the committer of a request's shard, and makes it for the first one.
func (c *Committer[K, Q, R]) committerOf(ctx context.Context, q Q) (*Committer[K, Q, R], error) {
	if c.shards == nil {
		return c, nil
	}
	shard, err := c.cfg.Slots.shardOf(ctx, c.cfg.Place(q))
	if err != nil {
		return nil, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if of := c.shards[shard]; of != nil {
		return of, nil
	}
	server := c.servers[shard.Server]
	if server == nil {
		server = newPermits(c.cfg.Permits)
		c.servers[shard.Server] = server
	}
	of := start(c.cfg, c.shared, server)
	c.shards[shard] = of
	return of, nil
}

// At returns the slots of the shard that has this value of the distribution column: s itself on one server.
func (s *Slots) At(place string) *Slots {
	if s == nil || s.shards == nil {
		return s
	}
	return &Slots{slotTable: s.slotTable, place: place}
}

// ofPlace returns the condition that a slot is of the place in a parameter, where the slots have one.
func (s *slotTable) ofPlace(parameter int) string {
	if s.beside == "" {
		return ""
	}
	return fmt.Sprintf(" AND place = $%d", parameter)
}

// placed returns the parameters of a statement for a slot: its place is the last one, where it has one.
func (s *slotTable) placed(place string, args ...any) []any {
	if s.beside == "" {
		return args
	}
	return append(args, place)
}

// slotsOf returns the slots of a group's shard.
func (c *Committer[K, Q, R]) slotsOf(group []Q) *Slots {
	if !c.cfg.distributed() {
		return c.cfg.Slots
	}
	return c.cfg.Slots.At(c.cfg.Place(group[0]))
}

// noteShards forgets which shards there are, after an error that says that one was split.
func (s *Slots) noteShards(err error) {
	if s != nil && s.shards != nil && sqldb.SQLState(err) == notDistributable {
		s.shards.Forget()
	}
}

// closeShards closes the committers of all shards.
func (c *Committer[K, Q, R]) closeShards(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock() // no shard is added any more

	var all error
	for _, of := range c.shards {
		all = errors.Join(all, of.Close(ctx))
	}
	return all
}

const (
	oldSQL = `
SELECT place, id
  FROM %[1]s
 WHERE used_at < statement_timestamp() - %[2]d * interval '1 microsecond'
 LIMIT %[3]d`

	deletePlacedSQL = `
WITH old AS MATERIALIZED (
    SELECT s.place, s.id
      FROM unnest($1::text[], $2::uuid[]) AS a (place, id)
      JOIN %[1]s s ON s.place = a.place AND s.id = a.id
     WHERE s.place = ANY ($1)
       AND s.used_at < statement_timestamp() - %[2]d * interval '1 microsecond'
       FOR UPDATE OF s SKIP LOCKED
), gone AS (
    DELETE FROM %[1]s s
     USING old o
     WHERE s.place = ANY ($1)
       AND s.place = o.place
       AND s.id = o.id
    RETURNING 1
)
SELECT count(*) FROM gone`
)

// cleanShards is cleanAll where each shard has slots: one statement cannot skip locked rows of several.
func (s *Slots) cleanShards(ctx context.Context) error {
	ttl := s.ttl.Microseconds()
	for {
		var old []struct {
			Place string `db:"place"`
			ID    string `db:"id"`
		}
		if err := s.db.Repeatable().SelectContext(ctx, &old, fmt.Sprintf(oldSQL, s.table, ttl, deleteAtOnce)); err != nil {
			return err
		}
		places, ids := make([]string, len(old)), make([]string, len(old))
		for i, o := range old {
			places[i], ids[i] = o.Place, o.ID
		}

		n, err := s.shards.Delete(ctx, fmt.Sprintf(deletePlacedSQL, s.table, ttl), places, ids)
		if err != nil || len(old) < deleteAtOnce || n == 0 { // the next round deletes what is locked
			return err
		}
	}
}
