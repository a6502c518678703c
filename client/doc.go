// Package rowlock holds what the clients of all services share: options and
// errors. Each service's client is in the subpackage with its name.
//
// Each call ends in one of four ways:
//
//	err == nil                  the call was applied, and its result is returned
//	NotApplied(err)             it was not applied; the same call may be repeated
//	OutcomeUnknown(err)         it may have been applied: the answer was lost, or the service does not know
//	neither                     it was refused and changed nothing; the code says why
//
// Every error of a call is an [*Error]. Compare its code with errors.Is:
//
//	if errors.Is(err, counts.ErrNotFound) { ... }
//
// A call that only reads changes nothing, so its outcome is never unknown: if its
// answer is lost, NotApplied reports true and Error.Read is set.
//
// The client repeats a call as long as it was not applied, within the deadline of
// its context, and sends it at most eight times. It waits for the time that the
// service asks for, or else for a growing time, plus some random time. If the
// service asks for more than half a minute, the call returns to the caller. After a
// lost answer or an unknown outcome, the client repeats only reads, payments, and
// changes of counts with a key, generated or from [WithKey]. It repeats such a
// change for 45 seconds, because services keep a key for at least a minute. A call
// returns the error of its last attempt, but an outcome stays unknown until an
// answer settles it. Give contexts a deadline. [WithoutRetries] turns all this off,
// and [WithAttemptHook] hears of each attempt that is repeated.
//
// Clients follow no redirects.
//
// [WithKey]: https://pkg.go.dev/github.com/rowlock/rowlock/client/counts#WithKey
package rowlock
