package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// texts are the statements that differ between one server and a Citus cluster, where lists are distributed by name. New
// picks them. All others are the same: each mention of a table names the list, or the lists of a shard, so that a
// worker gets the whole statement and locks in order.
type texts struct {
	get, claim, extend, release, abandon string

	batch, staged map[attempt.Change]string // increments and deletes
	send          map[attempt.Change]sender

	// distributed says that Citus does not send these to a worker as a whole: an INSERT in a CTE, an INSERT ... SELECT,
	// and a statement with a temporary table. It does so with INSERT ... VALUES. So adds have their functions, and a
	// staged batch is changed in parts.
	distributed bool
}

// ofList is the condition that rows belong to the list of a statement. condition adds it, or the same for the lists of
// a group, to conditions that find the rows.
const ofList = "l.list = $1"

type condition func(string) string

// textsOf returns the statements for one server or a cluster.
func textsOf(distributed bool) texts {
	// IS TRUE keeps the planner of one server from using a condition for Citus to find rows, which would read a whole
	// list.
	only := func(condition string) string { return "(" + condition + ") IS TRUE" }
	if distributed {
		only = func(condition string) string { return condition }
	}

	t := texts{
		get: getSQL(only), claim: claimSQL(only), extend: extendSQL(only), release: releaseSQL(only),
		abandon: abandonSQL(only), batch: make(map[attempt.Change]string), staged: make(map[attempt.Change]string),
		send: make(map[attempt.Change]sender), distributed: distributed,
	}
	for _, change := range attempt.Changes() {
		t.send[change] = send(change, only)
		if change != attempt.Add {
			t.batch[change], t.staged[change] = batchSQL(change, only), stagedSQL(change, only)
		}
	}
	if distributed {
		t.send[attempt.Add] = addGroup
	}
	return t
}

// add adds the items of lines. If they are expected to be new it fails if one of them is in the list.
func (t texts) add(ctx context.Context, tx *sqlx.Tx, list attempt.List, lines string, allNew bool) (int64, error) {
	switch {
	case t.distributed:
		return addLines(ctx, tx, list, lines)
	case allNew:
		return execute(ctx, tx, addSentSQL+inOrderSQL, string(list), lines)
	}
	return execute(ctx, tx, addSentSQL+inOrderSQL+unlessThereSQL, string(list), lines)
}

// changeStaged changes the items of the temporary table.
func (t texts) changeStaged(
	ctx context.Context, tx *sqlx.Tx, change attempt.Change, list attempt.List, claim attempt.Claim,
) (int64, error) {
	switch {
	case t.distributed:
		return changeInParts(ctx, tx, func(lines string) (int64, error) {
			if change == attempt.Add {
				return addLines(ctx, tx, list, lines)
			}
			return changeSent(ctx, tx, t.batch[change], list, claim, lines)
		})
	case change == attempt.Add:
		return execute(ctx, tx, addStagedSQL+inOrderSQL+unlessThereSQL, string(list))
	}
	return count(ctx, tx, t.staged[change], string(list), string(claim))
}

// distribution returns the statements that distribute the schema over a Citus cluster by list. They turn off statistics
// for the column, so that a worker's planner expects every list to be a fixed part of the table. With statistics from
// before the table grew, it might expect one row in a long list, and join the list with all items of a batch.
func distribution() []string {
	return []string{
		`ALTER TABLE iidy.lists ALTER COLUMN list SET STATISTICS 0`,
		`SELECT create_distributed_table('iidy.lists', 'list')`,
		`SELECT create_distributed_table('iidy.slots', 'place', colocate_with => 'iidy.lists')`,
	}
}

// changeInParts calls change with the items of the temporary table, part by part in byte order, so that the transaction
// locks rows in the same order as a single statement.
func changeInParts(
	ctx context.Context, tx *sqlx.Tx, change func(lines string) (int64, error),
) (total int64, err error) {
	const (
		read = `
DECLARE staged_items NO SCROLL CURSOR FOR
 SELECT DISTINCT s.item FROM pg_temp.staged AS s ORDER BY s.item`
		fetch = `FETCH 1000 FROM staged_items`
	)
	if _, err := tx.ExecContext(ctx, read); err != nil {
		return 0, err
	}

	for {
		var items []string
		if err := tx.SelectContext(ctx, &items, fetch); err != nil || len(items) == 0 {
			return total, err
		}

		n, err := change(strings.Join(items, "\n"))
		if err != nil {
			return 0, err
		}
		total += n
	}
}

// addLines adds the items of lines, which are in byte order.
func addLines(ctx context.Context, tx *sqlx.Tx, list attempt.List, lines string) (int64, error) {
	var keys []key
	for item := range strings.SplitSeq(lines, "\n") {
		keys = append(keys, key{string(list), item})
	}
	added, err := addInParts(ctx, tx, keys)
	return int64(len(added)), err
}

// addGroup sends a group of adds in a transaction: see groupcommit.Config.Send.
func addGroup(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, named []key) error {
	keys := slices.SortedFunc(slices.Values(named), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.list, b.list), cmp.Compare(a.item, b.item))
	})
	added, err := addInParts(ctx, s, slices.Compact(keys))
	if err != nil {
		return err
	}

	answers := make([]int64, len(named))
	for i, k := range named {
		if added[k] { // counts for its first request
			answers[i], added[k] = 1, false
		}
	}
	return a.Store(ctx, s, answers)
}

// mostAdded limits the items of one INSERT.
const mostAdded = 512

// addInParts adds distinct items in byte order, and returns those that were not in their list. The number of items in a
// statement is a power of two, with the last one repeated, so that a connection prepares only a few statements.
func addInParts(ctx context.Context, s groupcommit.Session, keys []key) (added map[key]bool, err error) {
	added = make(map[key]bool)
	for part := range slices.Chunk(keys, mostAdded) {
		n := 1
		for n < len(part) {
			n *= 2
		}

		var values strings.Builder
		args := make([]any, 0, 2*n)
		for i := range n {
			k := part[min(i, len(part)-1)]
			fmt.Fprintf(&values, ", ($%d, $%d)", 2*i+1, 2*i+2)
			args = append(args, k.list, k.item)
		}
		query := `
INSERT INTO iidy.lists (list, item)
VALUES ` + values.String()[2:] + `
ON CONFLICT (list, item) DO NOTHING
RETURNING list, item`

		var rows []struct {
			List string `db:"list"`
			Item string `db:"item"`
		}
		if err := s.SelectContext(ctx, &rows, query, args...); err != nil {
			return nil, err
		}
		for _, r := range rows {
			added[key{r.List, r.Item}] = true
		}
	}
	return added, nil
}
