package httpapi

import (
	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/idempotency"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// target parses the id of a change of one count, and its key if it has one.
func target(c echo.Context, itemID ItemId, header *IdempotencyKey) (counting.ItemID, counting.Key, error) {
	id, err := counting.NewItemID(itemID)
	if err != nil {
		return "", counting.Key{}, err
	}
	key, err := keyOf(c, header)
	return id, key, err
}

// keyOf parses the header Idempotency-Key into a key of the request's caller. Without the header it returns the zero
// key.
func keyOf(c echo.Context, header *IdempotencyKey) (counting.Key, error) {
	if header == nil {
		return counting.Key{}, nil
	}
	value, err := idempotency.ParseKey(*header)
	return counting.Key{Caller: auth.Caller(c.Request().Context()), Value: value}, err
}

// finish turns the err of a change into the error to answer with, nil for none. It sets the header that marks a
// replayed answer, on problems too. A refusal that is stored under a key names no request, so that repeats get the same
// bytes.
func finish(c echo.Context, key counting.Key, a counting.Answer, err error) error {
	if a.Replayed {
		c.Response().Header().Set(idempotency.Replayed, "true")
	}
	if key.Value != "" && counting.Refused(err) {
		p := ProblemOf(err)
		return p.Kind().New(p.Detail(), problem.Field(p.Field()), problem.Cause(err), problem.Stored())
	}
	return err
}
