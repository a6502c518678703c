package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// IncreaseCount adds an amount to a count.
func (h handlers) IncreaseCount(c echo.Context, itemID ItemId) error {
	return change(c, itemID, h.external.Increase)
}

// DecreaseCount subtracts an amount from a count.
func (h handlers) DecreaseCount(c echo.Context, itemID ItemId) error {
	return change(c, itemID, h.external.Decrease)
}

// change serves increase and decrease, which differ in the port's method alone.
func change(
	c echo.Context, itemID ItemId, do func(context.Context, counting.ItemID, counting.Amount) (int64, error),
) error {
	id, err := counting.NewItemID(itemID)
	if err != nil {
		return err
	}
	var body Change
	if err := c.Bind(&body); err != nil {
		return err
	}
	amount := counting.DefaultAmount
	if body.Amount != nil {
		if amount, err = counting.NewAmount(*body.Amount); err != nil {
			return err
		}
	}
	value, err := do(c.Request().Context(), id, amount)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, &Changed{ItemId: itemID, Value: value})
}

// ResetCount sets a count to zero.
func (h handlers) ResetCount(c echo.Context, itemID ItemId) error {
	id, err := counting.NewItemID(itemID)
	if err != nil {
		return err
	}
	if err := c.Bind(&struct{}{}); err != nil {
		return err
	}
	value, err := h.external.Reset(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, &Changed{ItemId: itemID, Value: value})
}
