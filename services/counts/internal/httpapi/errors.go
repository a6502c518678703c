package httpapi

import (
	"net/http"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// The kinds of problems that only this service has.
var (
	countNotFound = problem.Define("COUNT_NOT_FOUND", http.StatusNotFound, "Count not found")
	countExists   = problem.Define("COUNT_EXISTS", http.StatusConflict, "Count exists already")
	countOverflow = problem.Define("COUNT_OVERFLOW", http.StatusUnprocessableEntity, "Count overflow")
)

// ProblemOf returns what the client learns about an error of the domain, and nil for any other error.
func ProblemOf(err error) *problem.Error {
	return problem.Table{
		{Err: counting.ErrNotFound, Kind: countNotFound, Detail: "No count has this item id.", Field: fieldItemID},
		{Err: counting.ErrExists, Kind: countExists, Detail: "A count has this item id already.", Field: fieldItemID},
		{
			Err: counting.ErrOverflow, Kind: countOverflow, Field: fieldAmount,
			Detail: "The count would leave the range of a 64-bit integer; it is unchanged.",
		},
		{Err: counting.ErrInvalidItemID, Kind: problem.InvalidField, Field: fieldItemID},
		{Err: counting.ErrInvalidAmount, Kind: problem.InvalidField, Field: fieldAmount},
		{Err: counting.ErrTooManyItems, Kind: problem.InvalidField, Field: fieldItemIDs},
	}.Of(err)
}

// The names of the parts of a request that can be at fault.
const (
	fieldItemID  = "itemId"
	fieldItemIDs = "itemIds"
	fieldAmount  = "amount"
)
