package postgres

import (
	"maps"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// applyAll applies the callers' changes one after the other, and returns the contents after the last one. A change that
// is refused changes nothing, and its caller gets its own error.
func applyAll(p pot.Pot, calls []*call) pot.Contents {
	for _, c := range calls {
		var after pot.Contents
		if after, c.err = c.change(p); c.err == nil {
			p.Contents = merge(p.Contents, after)
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
