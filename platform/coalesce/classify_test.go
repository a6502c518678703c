package coalesce_test

import (
	"errors"
	"testing"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// What the value of one request can cause for all of its group is split, and told from a lock wait.
func TestClassify(t *testing.T) {
	t.Parallel()
	type answer struct{ split, locked bool }
	for state, want := range map[pqerror.Code]answer{
		"22P05": {split: true}, // a character that the database's encoding lacks
		"22003": {split: true}, "23505": {split: true}, "23514": {split: true}, "54000": {split: true},
		"55P03": {locked: true},
		"40P01": {}, "42501": {}, "53300": {}, "57014": {},
	} {
		err := coalesce.Classify(&pq.Error{Code: state})
		got := answer{errors.Is(err, coalesce.ErrSplit), errors.Is(err, coalesce.ErrLockWait)}
		if got != want || sqldb.SQLState(err) != string(state) {
			t.Errorf("%s: %v, %+v, want %+v", state, err, got, want)
		}
	}
	unknown := coalesce.Classify(&sqldb.Error{Outcome: sqldb.Unknown, Reason: sqldb.Data})
	if errors.Is(unknown, coalesce.ErrSplit) || coalesce.Classify(nil) != nil {
		t.Errorf("an unknown outcome is split: %v", unknown)
	}
}
