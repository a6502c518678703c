package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// IncreaseCount adds an amount to a count.
func (h handlers) IncreaseCount(c echo.Context, itemID ItemId, params IncreaseCountParams) error {
	return change(c, itemID, params.IdempotencyKey, h.counts.Increase)
}

// DecreaseCount subtracts an amount from a count.
func (h handlers) DecreaseCount(c echo.Context, itemID ItemId, params DecreaseCountParams) error {
	return change(c, itemID, params.IdempotencyKey, h.counts.Decrease)
}

// change serves increase and decrease, which differ only in the method of the service.
func change(
	c echo.Context, itemID ItemId, header *IdempotencyKey,
	do func(context.Context, counting.Key, counting.ItemID, int64) (counting.Answer, error),
) error {
	id, key, err := target(c, itemID, header)
	if err != nil {
		return err
	}
	var body Change
	if err := c.Bind(&body); err != nil {
		return err
	}
	amount := int64(1)
	if body.Amount != nil {
		amount = *body.Amount
	}

	a, err := do(c.Request().Context(), key, id, amount)
	return writeValue(c, key, id, a, err)
}

// ResetCount sets a count to zero.
func (h handlers) ResetCount(c echo.Context, itemID ItemId, params ResetCountParams) error {
	id, key, err := target(c, itemID, params.IdempotencyKey)
	if err != nil {
		return err
	}
	if err := c.Bind(&struct{}{}); err != nil {
		return err
	}

	a, err := h.counts.Reset(c.Request().Context(), key, id)
	return writeValue(c, key, id, a, err)
}

// writeValue answers a change of one count.
func writeValue(c echo.Context, key counting.Key, id counting.ItemID, a counting.Answer, err error) error {
	if err := finish(c, key, a, err); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, &Changed{ItemId: string(id), Value: a.Values[0]})
}

// ChangeCounts changes several counts, all or none.
func (h handlers) ChangeCounts(c echo.Context, params ChangeCountsParams) error {
	query, err := url.ParseQuery(c.QueryString())
	if err != nil {
		return invalid(fieldCreate, "The query is not well formed.", err)
	}
	// The generated code accepts 1, t and TRUE as true.
	if create := query.Get(fieldCreate); params.Create != nil && create != strconv.FormatBool(*params.Create) {
		return invalid(fieldCreate, "The parameter create must be true or false.", nil)
	}

	key, err := keyOf(c, params.IdempotencyKey)
	if err != nil {
		return err
	}
	var body Changes
	if err := c.Bind(&body); err != nil {
		return err
	}

	request := counting.Request{
		Key: key, Changes: make([]counting.Change, len(body.Changes)),
		CreateMissing: params.Create != nil && *params.Create,
	}
	for i, asked := range body.Changes {
		request.Changes[i], err = counting.NewChange(asked.ItemId, asked.Amount)
		if err != nil {
			return &counting.ChangeError{Index: i, Err: err}
		}
	}

	a, err := h.counts.Apply(c.Request().Context(), request)
	if err := finish(c, key, a, err); err != nil {
		return err
	}

	answer := ChangedCounts{Values: make([]Changed, len(a.Values))}
	for i, value := range a.Values {
		answer.Values[i] = Changed{ItemId: body.Changes[i].ItemId, Value: value}
	}
	return c.JSON(http.StatusOK, &answer)
}
