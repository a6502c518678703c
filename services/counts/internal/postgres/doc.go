// Package postgres stores counts in PostgreSQL: schema counts, table count_values.
//
// Changes go through group commit (platform/coalesce): concurrent calls of Apply share one statement, which locks its
// rows in the order of their ids and changes them. add.go has the whole path, group.go the statement, once.go what
// sends it, sums.go the arithmetic of a group. No statement writes a value that another one has read. values.go has
// what is not grouped.
//
// A group with an update in it (a request with an Idempotency-Key, of several changes, or that creates counts) has a
// statement of its own: update.go and statement.go have its arithmetic, updates.go its way, updates_sql.go and
// singles_sql.go the statement, keys.go the part of it that takes keys, args.go its parameters, lanes.go what its
// requests wait for. first.go reads the first answers to requests with keys, replay.go answers repeats with them.
// set.go has the set with a key.
//
// On a Citus cluster the counts of each shard have groups of their own, whose statements are in citus_sql.go: citus.go.
// The row that proves the outcome of a statement is a slot on its shard: slots.go. Keys hold for one count, on whose
// shard their rows are: citus_keys.go and citus_keys_sql.go. Changes that may span shards are refused.
package postgres
