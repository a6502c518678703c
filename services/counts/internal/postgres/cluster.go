package postgres

import "github.com/rowlock/rowlock/platform/groupcommit"

// Slots says where the slots are: on the shard of the counts that they prove a change of.
func Slots() groupcommit.SlotOption { return groupcommit.Beside("counts.count_values") }

// distribution returns the statements that distribute the schema over a Citus cluster by item. Keys are not supported
// there, and their table stays where it is.
func distribution() []string {
	return []string{
		`SELECT create_distributed_table('counts.count_values', 'item_id')`,
		`SELECT create_distributed_table('counts.slots', 'place', colocate_with => 'counts.count_values')`,
	}
}

// texts are the statements that differ between one server and a Citus cluster. There each mention of the counts has the
// condition that they are of one shard, so that the statement goes to a worker as a whole, with the locks in order. One
// server does without: the condition is evaluated for each row, and a group of 64 counts took 2.1 ms instead of 1.2,
// one of 500 took 62 ms instead of 6.5 (PostgreSQL 15). Nor does Citus take addOne, which is a fifth quicker than
// addSeveral for a single count.
type texts struct {
	addOne              string // empty: addSeveral does it
	addSeveral, addFree string
	lock, lockFree      string
	addTo, replace      string
}

// condition returns what is put behind others to have a condition of a shard.
type condition func(string) string

func textsOf(distributed bool) texts {
	only := func(string) string { return "" }
	addOne := addOneSQL
	if distributed {
		only = func(condition string) string { return " AND " + condition }
		addOne = "" // it reads the clock in UPDATE
	}
	return texts{
		addOne: addOne, addSeveral: addSeveralSQL("", only), addFree: addSeveralSQL("SKIP LOCKED", only),
		lock: lockCountsSQL("", only), lockFree: lockCountsSQL("SKIP LOCKED", only),
		addTo: addToCountsSQL(only), replace: replaceCountsSQL(only),
	}
}
