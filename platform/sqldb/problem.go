package sqldb

import (
	"errors"

	"github.com/rowlock/rowlock/platform/problem"
)

// Problem returns the API's answer to an error of the database, with the error as
// its cause. It returns nil for an error that is not an [*Error], and for one that
// the service should have handled (a violated constraint, a refused value, a mistake
// in a statement): such an error is a bug.
func Problem(err error) *problem.Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return nil
	}
	cause := problem.Cause(err)
	if e.Outcome == Unknown {
		return problem.OutcomeUnknown.New("The connection to the database was lost before it confirmed the change. "+
			"The change may or may not have been made; look before you repeat it.", cause)
	}

	switch e.Reason {
	case Connection, Denied:
		return problem.DatabaseUnavailable.New(
			"The database is not available at the moment. Nothing was changed; try again.", cause)
	case Overloaded:
		return problem.Overloaded.New(
			"The database has no free connection at the moment. Nothing was changed; try again.", cause)
	case Outdated:
		return problem.NotApplied.New("The schema has just been migrated. Nothing was changed; try again.", cause)
	case LockTimeout, Serialization:
		return problem.NotApplied.New(
			"Other changes to the same data were in the way for too long. Nothing was changed; try again.", cause)
	case Timeout, Canceled:
		return problem.NotApplied.New("The database did not finish in time. Nothing was changed; try again.", cause)
	case Constraint, Data, Other:
	}
	return nil
}
