// Package postgres stores counts in PostgreSQL: schema counts, table count_values.
//
// Changes go through group commit (platform/coalesce): concurrent calls of Apply share one statement, which locks its
// rows in the order of their ids and changes them. add.go has the whole path; sums.go the arithmetic of a group. No
// statement writes a value that another one has read. values.go has what is not grouped.
//
// A group with an update in it (a request with an Idempotency-Key, of several changes, or that creates counts) has a
// statement of its own: update.go and statement.go have its arithmetic, updates.go its way, updates_sql.go and
// singles_sql.go the statement, args.go its parameters, replay.go the answers to repeats, lanes.go what its requests
// wait for. set.go has the set with a key.
//
// On a Citus cluster single changes without a key have statements of their own, one for each shard: citus.go and
// citus_sql.go. The row that proves the outcome of each is a slot on its shard: slots.go. Other changes are refused.
//
// What mutants replace stands alone, in group.go, once.go, keys.go and first.go: the files *_bug.go beside them are
// built by the tags bug_* only.
package postgres
