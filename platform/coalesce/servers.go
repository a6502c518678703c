package coalesce

import (
	"context"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// OnServers runs requests that share no statements, each for the server that has its shard: a server which does not
// answer leaves half of the statements that run at once to the others.
type OnServers[K comparable, Q, R any] struct {
	*Sharded[K, Q, R]

	shards *sqldb.Shards
	of     func(Q) string
}

// NewOnServers checks cfg, of which it sets MaxItems and InFlight, and returns an OnServers of which so many statements
// run at once. of returns the key of shards by which a request is found.
func NewOnServers[K comparable, Q, R any](
	cfg Config[K, Q, R], atOnce int, shards *sqldb.Shards, of func(Q) string,
) (*OnServers[K, Q, R], error) {
	cfg.MaxItems, cfg.InFlight = 1, ofOneServer(atOnce)
	sharded, err := NewSharded(cfg, atOnce)
	return &OnServers[K, Q, R]{sharded, shards, of}, err
}

// Do is [Coalescer.Do]. It asks for the shard of a key that is not known.
func (s *OnServers[K, Q, R]) Do(ctx context.Context, q Q) (R, error) {
	shards, err := s.shards.Of(ctx, []string{s.of(q)})
	if err != nil {
		var zero R
		return zero, err
	}
	return s.Sharded.Do(ctx, sqldb.Shard{Server: shards[0].Server}, q)
}
