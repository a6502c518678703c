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
// These packages repeat no call and follow no redirection.
package rowlock
