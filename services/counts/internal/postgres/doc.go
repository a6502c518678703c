// Package postgres stores counts in PostgreSQL: schema counts, tables count_values, idempotency_keys and slots.
//
// Every change goes through platform/groupcommit, which proves its outcome by a slot:
//
//   - A plain add shares one statement with others (add.go). It locks its slot and then its counts, in the order of
//     their ids, and adds. If the adds of a count would overflow together, none is applied, and a transaction decides
//     each of them.
//   - Every other change shares one transaction (change.go): lock the counts, read the keys (keys.go), let
//     counting.Decide decide, create counts, and write the rest, the keys and the slot in one statement (write.go).
//
// A request for one count whose row is locked waits in the lane of its count. A request that would make others wait,
// because it names several counts or its key is being taken, leaves its group and is tried alone, briefly and with
// pauses (groupcommit.Retry).
//
// On a Citus cluster a group is for one shard, and each mention of the counts says so (cluster.go). Requests that may
// span shards are refused: several counts, keys, and ?create=true.
package postgres
