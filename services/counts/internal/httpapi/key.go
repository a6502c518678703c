package httpapi

import (
	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/idempotency"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// target reads what a change of one count names: the count, and the key if there is one.
func target(itemID ItemId, header *IdempotencyKey) (counting.ItemID, counting.Key, error) {
	id, err := counting.NewItemID(itemID)
	if err != nil {
		return "", counting.Key{}, err
	}
	key, err := keyOf(header)
	return id, key, err
}

// keyOf parses the header Idempotency-Key; without one it returns the zero key.
func keyOf(header *IdempotencyKey) (counting.Key, error) {
	if header == nil {
		return counting.Key{}, nil
	}
	value, err := idempotency.ParseKey(*header)
	return counting.Key{Value: value}, err
}

// markReplayed marks the answer that follows, a problem too, as one that an earlier request got.
func markReplayed(c echo.Context, replayed bool) {
	if replayed {
		c.Response().Header().Set(idempotency.Replayed, "true")
	}
}
