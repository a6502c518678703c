package postgres

import "github.com/rowlock/rowlock/platform/groupcommit"

// Slots places each slot on the shard of the counts whose change it proves.
func Slots() groupcommit.SlotOption { return groupcommit.Beside("counts.count_values") }

// distribution returns the statements that distribute the schema over a Citus cluster by item. Keys are not supported
// there, so their table is not distributed.
func distribution() []string {
	return []string{
		`SELECT create_distributed_table('counts.count_values', 'item_id')`,
		`SELECT create_distributed_table('counts.slots', 'place', colocate_with => 'counts.count_values')`,
	}
}

// texts are the statements that differ between one server and a Citus cluster. On Citus each mention of the counts has
// the condition that they are on one shard, so that a worker gets the whole statement and locks in order. On one server
// they leave it out: it is evaluated for each row, and makes a group of 64 counts take 2.1 ms instead of 1.2, and one
// of 500 take 62 ms instead of 6.5 (PostgreSQL 15). Citus does not support addOne, which is a fifth faster than
// addSeveral for a single count.
type texts struct {
	addOne              string // empty: use addSeveral
	addSeveral, addFree string
	lock, lockFree      string
	write               string
}

// condition returns the text that adds a shard's condition to a WHERE clause.
type condition func(string) string

func textsOf(distributed bool) texts {
	only := func(string) string { return "" }
	addOne, takeKeys := addOneSQL, takeKeysSQL
	if distributed {
		only = func(condition string) string { return " AND " + condition }
		addOne = ""   // it reads the clock in UPDATE
		takeKeys = "" // not supported
	}
	return texts{
		addOne: addOne, addSeveral: addSeveralSQL("", only), addFree: addSeveralSQL("SKIP LOCKED", only),
		lock: lockCountsSQL("", only), lockFree: lockCountsSQL("SKIP LOCKED", only),
		write: writeSQL(takeKeys, only),
	}
}
