package postgres

import (
	"slices"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// request is what one caller of Apply asks for: an add, or an update.
type request struct {
	add // the first change

	update *update // nil for one change without a key that creates nothing
}

// reply is what Apply answers beside an error.
type reply struct {
	value    int64   // after an add
	values   []int64 // after each change of an update
	replayed bool
}

// update is a counting.Update, and what a statement needs of it.
type update struct {
	counting.Update

	steps  []step
	stepOf []int    // the step of each change
	locks  []string // the lanes of what it locks: the ids of its counts in the order of the changes, then of its key
	wide   bool     // a sum of its changes of one count leaves int64
}

// step is the sum of some changes of one count: of all, unless that leaves int64.
type step struct {
	id    string
	first int   // the index of the first change
	delta int64 // of all of them
	low   int64 // the lowest running sum on the way, at most 0
	high  int64 // the highest one, at least 0
}

// newRequest returns an update as a group carries it.
func (s *Store) newRequest(u counting.Update) request {
	r := request{add: add{id: string(u.Changes[0].ItemID), delta: u.Changes[0].Delta}}
	if len(u.Changes) > 1 || u.Key.Value != "" || u.Create {
		r.update = newUpdate(u)
		if u.Key.Value != "" {
			r.update.locks = append(r.update.locks, s.keyLane(u.Key, r.id))
		}
	}
	return r
}

func newUpdate(u counting.Update) *update {
	out := &update{Update: u, stepOf: make([]int, len(u.Changes))}
	last := make(map[counting.ItemID]int, len(u.Changes)) // the last step of each count
	for i, c := range u.Changes {
		n, seen := last[c.ItemID]
		if !seen {
			out.locks = append(out.locks, string(c.ItemID))
		}
		if !seen || !out.steps[n].add(c.Delta) {
			out.wide = out.wide || seen
			n = len(out.steps)
			last[c.ItemID] = n
			out.steps = append(out.steps,
				step{id: string(c.ItemID), first: i, delta: c.Delta, low: min(c.Delta, 0), high: max(c.Delta, 0)})
		}
		out.stepOf[i] = n
	}
	return out
}

// add adds a change to a step, unless the sum leaves int64.
func (s *step) add(delta int64) bool {
	sum, ok := addInt64(s.delta, delta)
	if ok {
		s.delta, s.low, s.high = sum, min(s.low, sum), max(s.high, sum)
	}
	return ok
}

// values returns the counts after each change, from the values before each step.
func (u *update) values(starts []int64) []int64 {
	running := slices.Clone(starts)
	values := make([]int64, len(u.Changes))
	for i, c := range u.Changes {
		n := u.stepOf[i]
		running[n] += c.Delta
		values[i] = running[n]
	}
	return values
}

// refused returns the error of an update of which one change is refused.
func (u *update) refused(index int, err error) error {
	if len(u.Changes) == 1 {
		return err
	}
	return &counting.ChangeError{Index: index, Err: err}
}

// others returns the lanes of what a request locks beside its first count.
func (r request) others() []string {
	if r.update == nil {
		return nil
	}
	return r.update.locks[1:]
}

// weight returns a request's share of maxWeight: one for itself and one for each count.
func (r request) weight() int {
	if r.update == nil {
		return 2
	}
	return 1 + len(r.update.steps)
}

// maxWeight and maxBytes bound a group: 500 adds, or nearly 1,000 counts of batches. Larger groups take fewer commits,
// and keep their counts locked for longer than another replica's group waits briefly.
const (
	maxWeight = 1000
	maxBytes  = 128 << 10
)

// size returns about how many bytes of parameters a request adds to its statement.
func (r request) size() int {
	if r.update == nil {
		return len(r.id) + addOverheadBytes
	}
	size := len(r.update.Key.Caller) + len(r.update.Key.Value)
	for _, s := range r.update.steps {
		size += len(s.id) + addOverheadBytes
	}
	return size
}
