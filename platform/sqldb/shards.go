package sqldb

import (
	"context"
	"sync"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Shards returns the shards of keys of a table that Citus distributes by a text column. It remembers up to a number of
// keys, so that a group of known keys costs no round trip.
type Shards struct {
	db       *DB
	table    string
	capacity int

	mu    sync.Mutex
	known map[string]int64
}

// NewShards returns the shards of a table, given with its schema.
func NewShards(db *DB, table string, capacity int) *Shards {
	return &Shards{db: db, table: table, capacity: capacity, known: make(map[string]int64)}
}

// Of returns the shard of each key, in their order. It asks the coordinator once for all keys that it does not know.
// Its errors are NotApplied: it changes nothing.
func (s *Shards) Of(ctx context.Context, keys []string) ([]int64, error) {
	const query = `/* SELECT get_shard_id_for_distribution_column */
SELECT get_shard_id_for_distribution_column($1::text::regclass, k.key)
  FROM unnest($2::text[]) WITH ORDINALITY AS k (key, n)
 ORDER BY k.n`
	shards, unknown := make([]int64, len(keys)), []int(nil)
	s.mu.Lock()
	for i, key := range keys {
		shard, ok := s.known[key]
		if !ok {
			unknown = append(unknown, i)
		}
		shards[i] = shard
	}
	s.mu.Unlock()
	if len(unknown) == 0 {
		return shards, nil
	}
	asked := make(pq.StringArray, len(unknown))
	for n, i := range unknown {
		asked[n] = keys[i]
	}
	var found []int64
	if err := s.db.SelectUnqueued(ctx, &found, query, s.table, asked); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known)+len(unknown) > s.capacity {
		clear(s.known) // the keys in use are back after one query each
	}
	for n, i := range unknown {
		shards[i] = found[n]
		if len(s.known) < s.capacity {
			s.known[keys[i]] = found[n]
		}
	}
	return shards, nil
}

// Delete runs, once for each shard, a statement that deletes rows and returns how many. Its parameters are those elements
// of the columns that are on the shard, by the first column. It returns the sum, also beside an error.
func (s *Shards) Delete(ctx context.Context, query string, columns ...[]string) (deleted int, err error) {
	shards, err := s.Of(ctx, columns[0])
	if err != nil {
		return 0, err
	}
	parts := make(map[int64][]pq.StringArray)
	for i, shard := range shards {
		if parts[shard] == nil {
			parts[shard] = make([]pq.StringArray, len(columns))
		}
		for n, column := range columns {
			parts[shard][n] = append(parts[shard][n], column[i])
		}
	}
	for _, part := range parts {
		args := make([]any, len(part))
		for n, column := range part {
			args[n] = column
		}
		var n int
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.GetContext(ctx, &n, query, args...)
		})
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
