package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/rowlock/rowlock/platform/idempotency"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// The problems that only this service has.
var (
	countNotFound = problem.Define("COUNT_NOT_FOUND", http.StatusNotFound, "Count not found")
	countExists   = problem.Define("COUNT_EXISTS", http.StatusConflict, "Count exists already")
	keyConflict   = problem.Define("IDEMPOTENCY_KEY_CONFLICT", http.StatusConflict, "Idempotency key conflict")
	notSupported  = problem.Define("NOT_SUPPORTED", http.StatusNotImplemented, "Not supported")
	countOverflow = problem.Define("COUNT_OVERFLOW", http.StatusUnprocessableEntity, "Count overflow")
)

// ProblemOf returns the problem that tells the client about an error of the domain, and nil for any other error.
func ProblemOf(err error) *problem.Error {
	if change, ok := errors.AsType[*counting.ChangeError](err); ok {
		p := ProblemOf(change.Err)
		if p == nil {
			return nil
		}

		member := fieldItemID
		if p.Kind() == problem.InvalidField {
			member = p.Field()
		}
		field := fmt.Sprintf("%s[%d].%s", fieldChanges, change.Index, member)
		return p.Kind().New(p.Detail(), problem.Field(field), problem.Cause(err))
	}

	return problem.Table{
		{Err: counting.ErrNotFound, Kind: countNotFound, Detail: "No count has this item id.", Field: fieldItemID},
		{Err: counting.ErrExists, Kind: countExists, Detail: "A count has this item id already.", Field: fieldItemID},
		{
			Err: counting.ErrOverflow, Kind: countOverflow, Field: fieldAmount,
			Detail: "The count would leave the range of a 64-bit integer. Nothing was changed.",
		},
		{
			Err: counting.ErrKeyConflict, Kind: keyConflict, Field: idempotency.Header,
			Detail: "This key was used for another request. This one did nothing. " +
				"A repeat must be sent exactly as the first time; another change needs another key.",
		},
		{
			Err: counting.ErrNotSupported, Kind: notSupported,
			Detail: "On a distributed database a change has one count, no key and no ?create=true. Nothing was changed.",
		},
		{Err: counting.ErrInvalidItemID, Kind: problem.InvalidField, Field: fieldItemID},
		{Err: counting.ErrInvalidAmount, Kind: problem.InvalidField, Field: fieldAmount},
		{Err: counting.ErrTooManyItems, Kind: problem.InvalidField, Field: fieldItemIDs},
		{Err: counting.ErrTooManyChanges, Kind: problem.InvalidField, Field: fieldChanges},
		{Err: counting.ErrInvalidLimit, Kind: problem.InvalidField, Field: fieldLimit},
	}.Of(err)
}

// The fields that a problem can name.
const (
	fieldItemID  = "itemId"
	fieldItemIDs = "itemIds"
	fieldAmount  = "amount"
	fieldChanges = "changes"
	fieldCreate  = "create"
	fieldPrefix  = "prefix"
	fieldAfter   = "after"
	fieldLimit   = "limit"
)
