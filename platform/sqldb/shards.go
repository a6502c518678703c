package sqldb

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lib/pq"
)

// Shard is a part of a table that Citus distributes.
type Shard struct {
	ID     int64
	Server int64 // the group of servers that had it some seconds ago
}

// Shards finds the shards of the keys of a table that Citus distributes. It remembers up to a number of keys, so that a
// group of known keys costs no round trip.
type Shards struct {
	db       *DB
	table    string
	capacity int

	mu      sync.Mutex
	known   map[string]int64
	servers map[int64]int64 // of each shard
	read    time.Time       // when servers was last asked for
}

// serversTTL is how long a shard that has moved may still be taken for the old server's: a bound counts it there.
const serversTTL = 10 * time.Second

// NewShards returns the shards of a table, given with its schema.
func NewShards(db *DB, table string, capacity int) *Shards {
	return &Shards{db: db, table: table, capacity: capacity, known: make(map[string]int64)}
}

// Of returns the shard of each key, in their order. It asks the coordinator once for all keys that it does not know,
// and every ten seconds for the servers. Its errors are NotApplied: it changes nothing.
func (s *Shards) Of(ctx context.Context, keys []string) ([]Shard, error) {
	const query = `/* SELECT get_shard_id_for_distribution_column */
SELECT get_shard_id_for_distribution_column($1::text::regclass, k.key)
  FROM unnest($2::text[]) WITH ORDINALITY AS k (key, n)
 ORDER BY k.n`

	shards, unknown, asked := make([]Shard, len(keys)), []int(nil), pq.StringArray(nil)
	s.mu.Lock()
	for i, key := range keys {
		shard, ok := s.known[key]
		if !ok {
			unknown, asked = append(unknown, i), append(asked, key)
		}
		shards[i].ID = shard
	}
	s.mu.Unlock()
	if len(unknown) == 0 {
		return shards, s.locate(ctx, shards)
	}

	var found []int64
	if err := s.db.Repeatable().SelectContext(ctx, &found, query, s.table, asked); err != nil {
		return nil, err
	}

	s.mu.Lock()
	if len(s.known)+len(unknown) > s.capacity {
		clear(s.known) // the keys in use are back after one query each
	}
	for n, i := range unknown {
		shards[i].ID = found[n]
		if len(s.known) < s.capacity {
			s.known[keys[i]] = found[n]
		}
	}
	s.mu.Unlock()
	return shards, s.locate(ctx, shards)
}

// locate sets the servers of shards. While one caller asks for all again, the others take what is known.
func (s *Shards) locate(ctx context.Context, shards []Shard) error {
	const query = `SELECT shardid, groupid FROM pg_dist_placement`

	s.mu.Lock()
	servers := s.servers // a map that is replaced, and never changed
	ask := time.Since(s.read) > serversTTL || slices.ContainsFunc(shards, func(shard Shard) bool {
		_, known := servers[shard.ID]
		return !known
	})
	if ask {
		s.read = time.Now()
	}
	s.mu.Unlock()

	if ask {
		var placements []struct {
			Shard  int64 `db:"shardid"`
			Server int64 `db:"groupid"`
		}
		if err := s.db.Repeatable().SelectContext(ctx, &placements, query); err != nil {
			return err
		}

		servers = make(map[int64]int64, len(placements))
		for _, p := range placements {
			servers[p.Shard] = p.Server
		}
		s.mu.Lock()
		s.servers = servers
		s.mu.Unlock()
	}

	for i := range shards {
		server, there := servers[shards[i].ID]
		if shards[i].Server = server; !there {
			s.Forget() // the shard was split
		}
	}
	return nil
}

// Delete runs, once for each shard, a statement that deletes rows and returns how many. Its parameters are those
// elements of the columns that are on the shard, by the first column. It returns the sum, also beside an error.
func (s *Shards) Delete(ctx context.Context, query string, columns ...[]string) (deleted int, err error) {
	shards, err := s.Of(ctx, columns[0])
	if err != nil {
		return 0, err
	}
	parts := make(map[int64][]int)
	for i, shard := range shards {
		parts[shard.ID] = append(parts[shard.ID], i)
	}

	for _, part := range parts {
		args := make([]any, len(columns))
		for n, column := range columns {
			values := make(pq.StringArray, len(part))
			for m, i := range part {
				values[m] = column[i]
			}
			args[n] = values
		}

		var n int
		err := s.db.Once().GetContext(ctx, &n, query, args...)
		if SQLState(err) == stateFeatureNotSupported { // the shard was split
			s.Forget()
		}
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}

// Forget drops what is known: a shard was split. A shard that moves to another worker keeps its number.
func (s *Shards) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}
