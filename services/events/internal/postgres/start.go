package postgres

import (
	"errors"
	"strings"
	"sync/atomic"
)

// errNothing rolls back a claim that found no event.
var errNothing = errors.New("nothing is pending")

// heapStart is the first place of a heap.
const heapStart = "(0,0)"

// startingPoint holds where in the heap of pending events the next claim begins to read. The rows before it were just
// finished: they are dead until vacuum removes them, and a claim that reads them again takes the longer the more there
// are. It is a hint and nothing depends on it: a claim that finds too few events goes back to the beginning, and so
// does every returnEvery-th, or events in space that vacuum has freed there could wait without end while new ones
// follow.
type startingPoint struct {
	page  atomic.Pointer[string]
	calls atomic.Uint64
}

const returnEvery = 32

// next returns where to begin.
func (p *startingPoint) next() string {
	page := p.page.Load()
	if page == nil || p.calls.Add(1)%returnEvery == 0 {
		return heapStart
	}
	return *page
}

// reset lets the next claim begin at the heap's start.
func (p *startingPoint) reset() { p.page.Store(nil) }

// move lets the next claim begin at the page of a place, "(page,line)", of which other workers may have claimed a part.
func (p *startingPoint) move(place string) {
	page, _, ok := strings.Cut(place, ",")
	if !ok {
		return
	}
	page += ",0)"
	p.page.Store(&page)
}
