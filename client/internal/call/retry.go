package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/settings"
)

const (
	// attempts is the maximum number of times that a call is sent.
	attempts = 8
	// firstPause doubles with each attempt up to longestPause, unless the service says how long to wait.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	// longestWait is the longest wait that a service may ask for; a longer one is left to the caller.
	longestWait = 30 * time.Second
	// keyLife bounds the time in which a change is repeated, from its first attempt with an unknown outcome. It is less
	// than the minute for which a service keeps a key at least: if the key were forgotten, the change would be applied
	// again.
	keyLife = 45 * time.Second
)

// processing is payments' code for a key that another request holds.
const processing rowlock.Code = "PAYMENT_PROCESSING"

// Repeat calls send until the call succeeds or is refused, at most [attempts] times.
// It repeats calls that were not applied. If the answer is lost, it also repeats
// reads and changes with a key, for [keyLife]. It waits before a repeat, but not if
// the context's deadline would come first. If the context ends during a wait, its
// cause is joined to the error. The settings' hook hears of the request before each
// wait.
//
// It returns the error of the last attempt. If that leaves open what became of an
// earlier attempt, the outcome is unknown, and Repeat returns the earlier error.
func Repeat[T any](
	ctx context.Context, s settings.Settings, request string, key bool, send func() (T, error),
) (T, error) {
	var open *rowlock.Error // from the last attempt with an unknown outcome
	var since time.Time     // when the first such attempt was sent
	forgotten := func(wait time.Duration) bool { return open != nil && time.Since(since)+wait > keyLife }

	for attempt := 1; ; attempt++ {
		begun := time.Now()
		value, err := send()
		last, failed := errors.AsType[*rowlock.Error](err)
		if !failed {
			return value, err
		}

		// From here on only an answer that settles the outcome may replace this error.
		if rowlock.OutcomeUnknown(last) {
			if open == nil {
				since = begun
			}
			open = last
		}

		e := after(open, last, key)
		if s.WithoutRetries || !repeatable(last, key) {
			return value, e
		}

		wait := pause(attempt, last.RetryAfter)
		deadline, ok := ctx.Deadline()
		late := ok && time.Until(deadline) < wait || forgotten(wait)
		if attempt == attempts || late || last.RetryAfter > longestWait {
			return value, because(ctx, e)
		}

		s.AttemptFailed(ctx, request, attempt, last, wait)
		waited := Sleep(ctx, wait)
		if !waited || forgotten(0) { // the wait may have taken longer
			return value, because(ctx, e)
		}
	}
}

// because adds to e the cause of ctx's end, if ctx has ended.
func because(ctx context.Context, e *rowlock.Error) *rowlock.Error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(e, cause) {
		return e
	}
	ended := *e
	ended.Err = errors.Join(e.Err, cause)
	return &ended
}

// repeatable reports whether a call that failed with e may and should be repeated.
func repeatable(e *rowlock.Error, key bool) bool {
	switch {
	case e.Code == rowlock.ErrInternal: // a bug, which a repeat would meet again
		return false
	case e.Code == rowlock.ErrBadAnswer && e.Status < http.StatusInternalServerError:
		return false
	case e.Code == processing:
		return key
	default:
		return rowlock.NotApplied(e) || key && rowlock.OutcomeUnknown(e)
	}
}

// after returns the error of a call whose last attempt failed with last, and whose
// earlier attempt, if open is not nil, failed with open. If the service has looked
// up the key for last, it knows what became of the earlier attempt.
func after(open, last *rowlock.Error, key bool) *rowlock.Error {
	looked := !repeatable(last, key) && last.Code != rowlock.ErrUnauthenticated && last.Code != rowlock.ErrForbidden
	if open == nil || open == last || looked {
		return last
	}

	e := *open
	e.Detail += "; repeated: " + last.Error() // not joined: its code says less about the outcome
	return &e
}

// pause returns the wait after an attempt: a growing time, 50 % to 150 % of it, or
// the time that the service asks for, plus up to half of it.
func pause(attempt int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked + rand.N(asked/2+1)
	}
	return Pause(attempt, firstPause, longestPause)
}

// Pause returns 50 % to 150 % of first, which is doubled with each attempt up to longest.
func Pause(attempt int, first, longest time.Duration) time.Duration {
	grown := longest
	shift := attempt - 1
	if shift < 16 {
		grown = min(first<<shift, longest)
	}
	return grown/2 + rand.N(grown+1)
}

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
