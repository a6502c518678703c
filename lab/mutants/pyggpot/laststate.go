// Mutant of services/pyggpot/internal/postgres/apply.go: a group answers all its callers with the last state.

package postgres

import (
	"maps"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// applyAll returns the right contents to store, but makes each caller's answer from the contents after all changes of
// the group.
func applyAll(p pot.Pot, calls []*call) pot.Contents {
	for _, c := range calls {
		if after, err := c.change(p); err == nil {
			p.Contents = merge(p.Contents, after)
		}
	}
	if len(calls) > 1 {
		for _, c := range calls {
			_, c.err = c.change(p)
		}
	}
	return p.Contents
}

// merge returns the contents before with those of after, kind by kind.
func merge(before, after pot.Contents) pot.Contents {
	merged := make(pot.Contents, len(before)+len(after))
	maps.Copy(merged, before)
	maps.Copy(merged, after)
	return merged
}
