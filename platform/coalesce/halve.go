package coalesce

import (
	"errors"
	"time"
)

const (
	// glance is how long Halve waits for rows that another session is inserting.
	glance = 5 * time.Millisecond
	// maxGlances bounds the number of these waits for one group.
	maxGlances = 24
)

// Halve answers a group in the pass that skips locked rows, where a row may be one that another session is inserting:
// it is invisible and cannot be skipped. It calls run with the group, and with its halves while run returns
// [ErrLockWait] or [ErrSplit], until the request at fault stands alone, which is answered Locked, or with the error.
// What remains when no waits are left is answered Locked. Each part commits by itself, so an error concerns its
// requests alone.
func Halve[Q, R any](group []Q, run func(wait time.Duration, part []Q) ([]Answer[R], error)) []Answer[R] {
	answers := make([]Answer[R], 0, len(group))
	waits := maxGlances
	var halve func(part []Q)
	halve = func(part []Q) {
		some, err := []Answer[R](nil), ErrLockWait
		if waits > 0 {
			some, err = run(glance, part)
		}
		locked := errors.Is(err, ErrLockWait)
		if locked {
			waits--
		}
		switch half := len(part) / 2; {
		case err == nil:
			answers = append(answers, some...)
		case half > 0 && (locked && waits > 0 || errors.Is(err, ErrSplit)):
			halve(part[:half])
			halve(part[half:])
		case locked:
			answers = append(answers, allLocked[R](len(part))...)
		default:
			for range part {
				answers = append(answers, Answer[R]{Err: err})
			}
		}
	}
	halve(group)
	return answers
}
