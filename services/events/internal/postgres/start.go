package postgres

import (
	"strings"
	"sync/atomic"
)

// heapStart is a ctid before every row of a heap.
const heapStart = "(0,0)"

// startingPoint remembers where in the heap of pending events the next claim begins to read. The rows before it were
// just finished: they are dead until vacuum removes them, and slow down every claim that reads them again. It is only a
// hint: a claim that finds too few events starts over at the beginning. So does every returnEvery-th claim; otherwise
// events in space that vacuum has freed there could wait forever while new ones follow.
type startingPoint struct {
	page  atomic.Pointer[string]
	calls atomic.Uint64
}

const returnEvery = 32

// next returns the ctid to begin at.
func (p *startingPoint) next() string {
	page := p.page.Load()
	if page == nil || p.calls.Add(1)%returnEvery == 0 {
		return heapStart
	}
	return *page
}

// reset makes the next claim begin at the heap's start.
func (p *startingPoint) reset() { p.page.Store(nil) }

// move makes the next claim begin at the page of a ctid, "(page,line)". Other workers may have claimed a part of it.
func (p *startingPoint) move(place string) {
	page, _, _ := strings.Cut(place, ",")
	page += ",0)"
	p.page.Store(&page)
}
