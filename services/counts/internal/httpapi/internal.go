package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// InitializeCount creates a count.
func (h handlers) InitializeCount(c echo.Context, params InitializeCountParams) error {
	key, err := keyOf(c, params.IdempotencyKey)
	if err != nil {
		return err
	}
	var body NewCount
	if err := c.Bind(&body); err != nil {
		return err
	}
	id, err := counting.NewItemID(body.ItemId)
	if err != nil {
		return err
	}
	var initial int64
	if body.InitialValue != nil {
		initial = *body.InitialValue
	}

	a, err := h.counts.Initialize(c.Request().Context(), key, id, initial)
	if err := finish(c, key, a, err); err != nil {
		return err
	}

	c.Response().Header().Set(echo.HeaderLocation, internalCounts+"/"+pathSegment(body.ItemId))
	return c.JSON(http.StatusCreated, toCount(a.Count(id)))
}

// listCounts reads several counts, by their ids or as a page.
func (h handlers) listCounts(c echo.Context) error {
	ids, p, err := parseList(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}

	var values []counting.CountValue
	if p != nil {
		values, err = h.readPage(c, p)
	} else {
		values, err = h.counts.GetMany(c.Request().Context(), ids)
	}
	if err != nil {
		return err
	}

	counts := make([]Count, len(values))
	for i, v := range values {
		counts[i] = toCount(v)
	}
	return c.JSON(http.StatusOK, counts)
}

// readPage reads a page, and links to the next one in the header.
func (h handlers) readPage(c echo.Context, p *page) ([]counting.CountValue, error) {
	values, more, err := h.counts.Page(c.Request().Context(), p.prefix, p.after, p.limit)
	if err != nil {
		return nil, err
	}
	if more {
		c.Response().Header().Set("Link", "<"+p.next(values[len(values)-1].ItemID)+`>; rel="next"`)
	}
	return values, nil
}

// GetCount reads one count.
func (h handlers) GetCount(c echo.Context, itemID ItemId) error {
	id, err := counting.NewItemID(itemID)
	if err != nil {
		return err
	}
	value, err := h.counts.Get(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toCount(value))
}

// SetCount sets the value of a count.
func (h handlers) SetCount(c echo.Context, itemID ItemId, params SetCountParams) error {
	id, key, err := target(c, itemID, params.IdempotencyKey)
	if err != nil {
		return err
	}
	var body CountUpdate
	if err := c.Bind(&body); err != nil {
		return err
	}

	a, err := h.counts.Set(c.Request().Context(), key, id, body.Value)
	if err := finish(c, key, a, err); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toCount(a.Count(id)))
}

// DeleteCount deletes a count.
func (h handlers) DeleteCount(c echo.Context, itemID ItemId, params DeleteCountParams) error {
	id, key, err := target(c, itemID, params.IdempotencyKey)
	if err != nil {
		return err
	}
	a, err := h.counts.Delete(c.Request().Context(), key, id)
	if err := finish(c, key, a, err); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func toCount(v counting.CountValue) Count {
	return Count{ItemId: string(v.ItemID), CurrentValue: v.Current, LastUpdatedAt: v.UpdatedAt}
}
