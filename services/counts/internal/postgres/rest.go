package postgres

import (
	"slices"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// rest are adds of one count that did not fit as a sum and are applied one by
// one. The value is the count's at the last statement that had it locked.
type rest struct {
	callers []int // indexes into the group, in order of arrival
	value   int64
}

// done refuses every add that does not fit to the value, and says whether none
// is left. To refuse them takes no statement: the last one had the row locked
// and saw that very value, which is when these refusals take effect.
func (r *rest) done(group []add, answers []coalesce.Answer[int64]) bool {
	r.callers = slices.DeleteFunc(slices.Clone(r.callers), func(i int) bool {
		_, fits := addInt64(r.value, group[i].delta)
		if !fits {
			answers[i].Err = counting.ErrOverflow
		}
		return !fits
	})
	return len(r.callers) == 0
}

// note takes in what became of the first add, applied by itself.
func (r *rest) note(o outcome, err error, answers []coalesce.Answer[int64]) {
	first := r.callers[0]
	switch {
	case err != nil:
		answers[first].Err = err
	case !o.exists:
		r.refuse(counting.ErrNotFound, answers)
		return
	case o.changed:
		answers[first].Value = o.value
		r.value = o.value
	default: // somebody else has changed the count meanwhile
		answers[first].Err = counting.ErrOverflow
		r.value = o.value
	}
	r.callers = r.callers[1:]
}

// refuse gives all adds one error, and leaves none.
func (r *rest) refuse(err error, answers []coalesce.Answer[int64]) {
	for _, i := range r.callers {
		answers[i].Err = err
	}
	r.callers = nil
}

// postpone marks all adds as not applied, to be tried again, and leaves none.
func (r *rest) postpone(answers []coalesce.Answer[int64]) {
	for _, i := range r.callers {
		answers[i].Locked = true
	}
	r.callers = nil
}
