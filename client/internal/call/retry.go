package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
)

const (
	// attempts is how often a call is sent at most.
	attempts = 8
	// firstPause doubles with each attempt up to longestPause, unless the service says how long to wait.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	// longestWait is how long a service may ask a call to wait; a longer wait is left to the caller.
	longestWait = 30 * time.Second
	// keyLife is how long after the first attempt whose outcome is open a change is repeated. It is less than the
	// minute for which a service keeps a key at least; one that has forgotten the key would apply the change again.
	keyLife = 45 * time.Second
)

// processing is the code of payments for a key that another request holds.
const processing rowlock.Code = "PAYMENT_PROCESSING"

// Repeat calls send until it succeeds or is refused, at most [attempts] times. It
// repeats what was surely not applied; a read, and a change that has a key, also
// when the answer is lost, for [keyLife]. It waits before a repeat, but begins no
// wait that the context's deadline would end. When the context ends during one, its
// cause is joined to the error.
//
// The error is that of the last attempt, unless that one leaves open what became
// of an earlier one: then the outcome is unknown, and the error is the earlier one's.
func Repeat[T any](ctx context.Context, retries, key bool, send func() (T, error)) (T, error) {
	var open *rowlock.Error // of the last attempt whose outcome is unknown
	var since time.Time     // the first of them was sent
	forgotten := func(wait time.Duration) bool { return open != nil && time.Since(since)+wait > keyLife }
	for attempt := 1; ; attempt++ {
		begun := time.Now()
		value, err := send()
		last, failed := errors.AsType[*rowlock.Error](err)
		if !failed {
			return value, err
		}
		if rowlock.OutcomeUnknown(last) {
			if open == nil {
				since = begun
			}
			open = last
		}
		e := after(open, last, key)
		if !retries || !repeatable(last, key) {
			return value, e
		}
		wait := pause(attempt, last.RetryAfter)
		deadline, ok := ctx.Deadline()
		late := ok && time.Until(deadline) < wait || forgotten(wait)
		if attempt == attempts || late || last.RetryAfter > longestWait || !Sleep(ctx, wait) || forgotten(0) {
			return value, because(ctx, e)
		}
	}
}

// because returns e with the reason why ctx ended, if it has.
func because(ctx context.Context, e *rowlock.Error) *rowlock.Error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(e, cause) {
		return e
	}
	ended := *e
	ended.Err = errors.Join(e.Err, cause)
	return &ended
}

// repeatable reports whether a call that failed by e may and should be repeated.
func repeatable(e *rowlock.Error, key bool) bool {
	switch {
	case e.Code == rowlock.ErrInternal: // a bug, which a repeat meets again
		return false
	case e.Code == rowlock.ErrBadAnswer && e.Status < http.StatusInternalServerError:
		return false
	case e.Code == processing:
		return key
	default:
		return rowlock.NotApplied(e) || key && rowlock.OutcomeUnknown(e)
	}
}

// after returns the error of a call whose last attempt failed by last, when an
// earlier one, unless it is nil, failed by open. A service that has looked at the
// key knows what became of the earlier one.
func after(open, last *rowlock.Error, key bool) *rowlock.Error {
	looked := !repeatable(last, key) && last.Code != rowlock.ErrUnauthenticated && last.Code != rowlock.ErrForbidden
	if open == nil || open == last || looked {
		return last
	}
	e := *open
	e.Detail += "; repeated: " + last.Error() // not joined: its code says less of the outcome
	return &e
}

// pause returns how long to wait after the attempt of that number: half to one and
// a half of a growing time, or what the service asks for and up to half of it more.
func pause(attempt int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked + rand.N(asked/2+1)
	}
	return Pause(attempt, firstPause, longestPause)
}

// Pause returns first, doubled with each attempt up to longest, half to one and a half times.
func Pause(attempt int, first, longest time.Duration) time.Duration {
	grown := longest
	if shift := attempt - 1; shift < 16 {
		grown = min(first<<shift, longest)
	}
	return grown/2 + rand.N(grown+1)
}

// Sleep waits for d, and reports false when ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
