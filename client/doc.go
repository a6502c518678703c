// Package rowlock holds what the clients of all services share: options and
// errors. The client of each service is in a package of its name below it.
//
// Each call ends in one of four ways:
//
//	err == nil                  the call was applied, and its result is returned
//	NotApplied(err)             it was surely not applied; the same call may be repeated
//	OutcomeUnknown(err)         it may have been applied: the answer was lost, or the service does not know
//	neither                     it was refused and changed nothing; the code says why
//
// Every error of a call is an [*Error]. Its code is compared by errors.Is:
//
//	if errors.Is(err, counts.ErrNotFound) { ... }
//
// A call that only reads changes nothing, so its outcome is never unknown: when
// its answer is lost, NotApplied reports true and Error.Read is set.
//
// A call is repeated by itself, and sent eight times at most within the deadline of
// its context, as long as it was surely not applied: after the time that the service
// asks for, or else after a growing one, and some time at random. A call that should
// wait for more than half a minute is left to the caller. When an answer is lost, or
// the service does not know the outcome, only these are repeated: reads, payments,
// and changes of counts, which have a key, [WithKey]'s or one of their own. Such a
// change is repeated for 45 seconds, because services keep a key for a minute at
// least. Errors are those of the last attempt; an outcome stays unknown as long as
// no answer settles that of an earlier attempt. Give contexts a deadline.
// [WithoutRetries] turns this off.
//
// No redirection is followed.
//
// [WithKey]: https://pkg.go.dev/github.com/rowlock/rowlock/client/counts#WithKey
package rowlock
