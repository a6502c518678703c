package postgres

import (
	"math"
	"slices"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// add is one caller's change of one count.
type add struct {
	id    string
	delta int64
}

// addOverheadBytes is the size of an add on the wire beside its id: three integers as digits and their separators.
const addOverheadBytes = 64

// itemSum holds the adds of one count in a group, as a sum.
type itemSum struct {
	id      string
	delta   int64 // of all callers
	low     int64 // the lowest running sum on the way, at most 0
	high    int64 // the highest one, at least 0
	callers []int // indexes into the group, in order of arrival
	rest    []int // the adds after them, whose sum would not fit into int64
}

// sumByItem sums up the adds of a group by count, in order of arrival.
func sumByItem(group []request) []*itemSum {
	var sums []*itemSum
	byID := make(map[string]*itemSum, len(group))
	for i, a := range group {
		s, ok := byID[a.id]
		if !ok {
			s = &itemSum{id: a.id}
			byID[a.id] = s
			sums = append(sums, s)
		}
		delta, ok := addInt64(s.delta, a.delta)
		if !ok || len(s.rest) > 0 { // no add overtakes an earlier one
			s.rest = append(s.rest, i)
			continue
		}
		s.delta, s.low, s.high = delta, min(s.low, delta), max(s.high, delta)
		s.callers = append(s.callers, i)
	}
	return sums
}

// addInt64 returns a + b and whether it fits into int64.
func addInt64(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (sum > a) == (b > 0)
}

// bounds returns the values of the count from which the step of every caller stays within int64.
func (s *itemSum) bounds() (lowest, highest int64) { return bounds(s.low, s.high) }

// bounds returns the values of a count from which a low and a high running sum stay within int64.
func bounds(low, high int64) (lowest, highest int64) {
	return math.MinInt64 - low, math.MaxInt64 - high
}

// arrays returns the parameters of a statement: one element for each sum.
func arrays(sums []*itemSum) (ids []string, deltas, lowest, highest []int64) {
	for _, s := range sums {
		low, high := s.bounds()
		ids, deltas = append(ids, s.id), append(deltas, s.delta)
		lowest, highest = append(lowest, low), append(highest, high)
	}
	return ids, deltas, lowest, highest
}

// result holds what a statement returned about one count. The zero value says that there is no such row.
type result struct {
	exists  bool
	held    bool // the statement had the row locked; false when another transaction has
	changed bool
	value   int64 // of a row that was held: after the change, or as it is
}

// results returns what a statement returned about each of n counts: changed and, if it did not change all, held have
// the places of counts, from 1 on, and then their values; locked has places alone.
func results(n int, changed, held nullInts, locked []int64) []result {
	all := make([]result, n)
	for i, place := range held[:len(held)/2] {
		all[place.value-1] = result{exists: true, held: true, value: held[len(held)/2+i].value}
	}
	for i, place := range changed[:len(changed)/2] {
		all[place.value-1] = result{exists: true, held: true, changed: true, value: changed[len(changed)/2+i].value}
	}
	for _, place := range locked {
		all[place-1].exists = true
	}
	return all
}

// resultsStored is results for a statement whose answer was lost. What it did not change counts as locked: it is tried
// again, which finds out why.
func resultsStored(n int, changed nullInts) []result {
	all := results(n, changed, nil, nil)
	for i := range all {
		all[i].exists = true
	}
	return all
}

// distribute answers the callers of each sum by its result: the value after the caller's own step. It returns the
// adds that are left to be applied one by one.
func distribute(group []request, sums []*itemSum, results []result, answers []coalesce.Answer[reply]) []*leftover {
	var leftovers []*leftover
	for n, s := range sums {
		r := results[n]
		left := &leftover{callers: s.rest, value: r.value}
		if r.changed {
			value := r.value - s.delta
			for _, i := range s.callers {
				value += group[i].delta
				answers[i].Value.value = value
			}
		} else {
			left.callers = slices.Concat(s.callers, s.rest)
		}
		switch {
		case !r.exists:
			left.refuse(counting.ErrNotFound, answers)
		case !r.held:
			left.retryLater(answers)
		case len(left.callers) > 0:
			leftovers = append(leftovers, left)
		}
	}
	return leftovers
}

// leftover holds the adds of one count that did not fit as a sum.
type leftover struct {
	callers []int // indexes into the group, in order of arrival
	value   int64 // the count's value when a statement last had its row locked
}

// refuseOverflows refuses the adds that do not fit to the value. It takes no statement: the last one had the row
// locked and read this value, which is when these refusals take effect.
func (l *leftover) refuseOverflows(group []request, answers []coalesce.Answer[reply]) {
	l.callers = slices.DeleteFunc(slices.Clone(l.callers), func(i int) bool {
		_, fits := addInt64(l.value, group[i].delta)
		if !fits {
			answers[i].Err = counting.ErrOverflow
		}
		return !fits
	})
}

// answerFirst answers the first caller, whose add was applied by itself with this result or error, and removes it.
func (l *leftover) answerFirst(r result, err error, answers []coalesce.Answer[reply]) {
	first := &answers[l.callers[0]]
	switch {
	case err != nil:
		first.Err = err
	case !r.exists:
		l.refuse(counting.ErrNotFound, answers)
		return
	case !r.held:
		l.retryLater(answers)
		return
	case r.changed:
		first.Value.value, l.value = r.value, r.value
	default: // another transaction has changed the count since
		first.Err, l.value = counting.ErrOverflow, r.value
	}
	l.callers = l.callers[1:]
}

// refuse answers all callers with err and removes them.
func (l *leftover) refuse(err error, answers []coalesce.Answer[reply]) {
	for _, i := range l.callers {
		answers[i].Err = err
	}
	l.callers = nil
}

// retryLater marks all adds as not applied because of a lock, to be tried again, and removes their callers.
func (l *leftover) retryLater(answers []coalesce.Answer[reply]) {
	for _, i := range l.callers {
		answers[i].Locked = true
	}
	l.callers = nil
}
