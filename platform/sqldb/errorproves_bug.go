//go:build bug_errorproves

package sqldb

// provesLess is the bug "an error of Citus' coordinator proves that nothing was applied" (rowlock mutation-test): a
// worker whose answer got lost has committed.
func (db *DB) provesLess() bool { return false }
