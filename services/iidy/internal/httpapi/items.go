package httpapi

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

func listOf(c echo.Context) attempt.List { return attempt.List(c.Param(fieldList)) }
func itemOf(c echo.Context) attempt.Item { return attempt.Item(c.Param(fieldItem)) }

// exists answers HEAD of a list.
func (h handlers) exists(c echo.Context, q *query) error {
	if err := q.end(); err != nil {
		return err
	}
	exists, err := h.service.Exists(c.Request().Context(), listOf(c))
	if err != nil {
		return err
	}
	if !exists {
		return listNotFound.New(notFound)
	}
	return c.NoContent(http.StatusOK)
}

// count returns the counts of a list's items.
func (h handlers) count(c echo.Context, q *query) error {
	if err := q.end(); err != nil {
		return err
	}
	counts, err := h.service.Count(c.Request().Context(), listOf(c))
	if err != nil {
		return err
	}
	return writeCounts(c, counts)
}

// get returns the attempts of an item.
func (h handlers) get(c echo.Context, q *query) error {
	if err := q.end(); err != nil {
		return err
	}
	attempts, err := h.service.Get(c.Request().Context(), listOf(c), itemOf(c))
	if err != nil {
		return err
	}
	if answersJSON(c.Request()) {
		return c.JSON(http.StatusOK, Entry{Item: string(itemOf(c)), Attempts: attempts})
	}
	return writeText(c, http.StatusOK, append(strconv.AppendInt(nil, attempts, 10), '\n'))
}

// apply returns the handler that changes one item.
func (h handlers) apply(change attempt.Change) handler {
	return func(c echo.Context, q *query) error {
		claim, err := q.claimOf(change)
		if err != nil {
			return err
		}
		n, err := h.service.Apply(c.Request().Context(), change, listOf(c), itemOf(c), claim)
		return writeChange(c, change, n, err)
	}
}
