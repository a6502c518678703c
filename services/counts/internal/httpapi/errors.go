package httpapi

import (
	"errors"
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
	for _, row := range []struct {
		sentinel error
		kind     problem.Kind
		detail   string
		field    string
	}{
		{counting.ErrNotFound, countNotFound, "No count has this item id.", fieldItemID},
		{counting.ErrExists, countExists, "A count has this item id already.", fieldItemID},
		{
			counting.ErrOverflow, countOverflow,
			"The count would leave the range of a 64-bit integer; it is unchanged.", fieldAmount,
		},
		{counting.ErrInvalidItemID, problem.InvalidField, "", fieldItemID},
		{counting.ErrInvalidAmount, problem.InvalidField, "", fieldAmount},
		{counting.ErrTooManyItems, problem.InvalidField, "", fieldItemIDs},
	} {
		if !errors.Is(err, row.sentinel) {
			continue
		}
		detail := row.detail
		if detail == "" {
			detail = sentence(err) // it never repeats the input
		}
		return row.kind.New(detail, problem.Field(row.field), problem.Cause(err))
	}
	return nil
}

// The names of the parts of a request that can be at fault.
const (
	fieldItemID  = "itemId"
	fieldItemIDs = "itemIds"
	fieldAmount  = "amount"
)

// sentence returns the text of an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return string(text[0]-'a'+'A') + text[1:] + "."
}
