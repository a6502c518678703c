package countingtest

import (
	"sync/atomic"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Observed is an observer that counts its calls.
type Observed struct{ Replays, Conflicts atomic.Int64 }

var _ counting.Observer = (*Observed)(nil)

// Replayed implements counting.Observer.
func (o *Observed) Replayed() { o.Replays.Add(1) }

// Conflict implements counting.Observer.
func (o *Observed) Conflict() { o.Conflicts.Add(1) }
