package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// claim leases free items.
func (h handlers) claim(c echo.Context, q *query) error {
	count, lease := q.count(), q.lease()
	if err := q.end(); err != nil {
		return err
	}
	taken, err := h.service.Claim(c.Request().Context(), listOf(c), count, lease)
	if err != nil {
		return err
	}
	defer taken.Entries.Close()
	return writeLease(c, taken)
}

// extendClaim replaces the lease of the items that a claim still holds.
func (h handlers) extendClaim(c echo.Context, q *query) error {
	claim, lease := q.claim(), q.lease()
	if err := q.end(); err != nil {
		return err
	}
	n, err := h.service.Extend(c.Request().Context(), listOf(c), claim, lease)
	if err != nil {
		return err
	}
	return writeCount(c, http.StatusOK, "EXTENDED", n, Changed{Extended: &n})
}

// releaseClaim frees the items that a claim still holds.
func (h handlers) releaseClaim(c echo.Context, q *query) error {
	claim := q.claim()
	if err := q.end(); err != nil {
		return err
	}
	n, err := h.service.Release(c.Request().Context(), listOf(c), claim)
	if err != nil {
		return err
	}
	return writeCount(c, http.StatusOK, "RELEASED", n, Changed{Released: &n})
}
