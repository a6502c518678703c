package httpapi

import (
	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/idempotency"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// target reads what a change of one count names: the count, and the key if there is one.
func target(c echo.Context, itemID ItemId, header *IdempotencyKey) (counting.ItemID, counting.Key, error) {
	id, err := counting.NewItemID(itemID)
	if err != nil {
		return "", counting.Key{}, err
	}
	key, err := keyOf(c, header)
	return id, key, err
}

// keyOf parses the header Idempotency-Key, of the request's caller; without one it returns the zero key.
func keyOf(c echo.Context, header *IdempotencyKey) (counting.Key, error) {
	if header == nil {
		return counting.Key{}, nil
	}
	value, err := idempotency.ParseKey(*header)
	return counting.Key{Caller: auth.Caller(c.Request().Context()), Value: value}, err
}

// finish returns the error that answers a change which ended with err, nil for none. It marks the answer, a problem
// too, as one that an earlier request got. A refusal that is kept under a key names no request, so that its repeats get
// the same bytes.
func finish(c echo.Context, key counting.Key, replayed bool, err error) error {
	if replayed {
		c.Response().Header().Set(idempotency.Replayed, "true")
	}
	if key.Value != "" && counting.Refused(err) {
		p := ProblemOf(err)
		return p.Kind().New(p.Detail(), problem.Field(p.Field()), problem.Cause(err), problem.Stored())
	}
	return err
}
