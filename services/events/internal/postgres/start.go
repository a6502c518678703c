package postgres

import (
	"errors"
	"strings"
	"sync/atomic"
)

// errNothing rolls a claim of nothing back.
var errNothing = errors.New("nothing is pending")

// heapStart is the first place of a heap.
const heapStart = "(0,0)"

// startingPoint is where in the heap of pending events the next claim begins to
// look. The events before it were just finished: until vacuum has come by they are
// dead, and a claim that reads them all over again takes the longer the more there
// are. It is a hint and nothing depends on it: a claim that finds too little goes
// back to the beginning, and so does every returnEvery-th, lest events that lie in
// space that vacuum has freed there wait for ever while the end never runs dry.
type startingPoint struct {
	page  atomic.Pointer[string]
	calls atomic.Uint64
}

const returnEvery = 32

// next is where to begin.
func (p *startingPoint) next() string {
	page := p.page.Load()
	if page == nil || p.calls.Add(1)%returnEvery == 0 {
		return heapStart
	}
	return *page
}

func (p *startingPoint) reset() { p.page.Store(nil) }

// move sets it to the page of a place, "(page,line)": another worker's claims may
// be on the same one.
func (p *startingPoint) move(place string) {
	page, _, ok := strings.Cut(place, ",")
	if !ok {
		return
	}
	page += ",0)"
	p.page.Store(&page)
}
