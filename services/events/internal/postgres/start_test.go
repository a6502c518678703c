package postgres

import "testing"

// TestStartingPoint: the place moves on with the claims, and every returnEvery-th claim begins at the heap's start.
func TestStartingPoint(t *testing.T) {
	t.Parallel()
	var p startingPoint
	if got := p.next(); got != heapStart {
		t.Errorf("first %s", got)
	}
	p.move("(17,5)")
	starts := 0
	for range 2 * returnEvery {
		switch got := p.next(); got {
		case "(17,0)":
		case heapStart:
			starts++
		default:
			t.Errorf("at %s", got)
		}
	}
	if starts != 2 {
		t.Errorf("%d of %d claims began at the start, want 2", starts, 2*returnEvery)
	}
	p.reset()
	if got := p.next(); got != heapStart {
		t.Errorf("after reset %s", got)
	}
}
