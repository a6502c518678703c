package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// applyBatch returns the handler that changes the items of the body.
func (h handlers) applyBatch(change attempt.Change) handler {
	return func(c echo.Context, q *query) error {
		claim, err := q.claimOf(change)
		if err != nil {
			return err
		}

		if length := c.Request().ContentLength; length < 0 || length > shortBody {
			if err := h.service.Fits(length); err != nil {
				return err // now, before the client sends all of it
			}
			end, err := httpserver.Extend(c, h.long)
			if err != nil {
				return err
			}
			defer end()
		}

		items, err := source(c.Request())
		if err != nil {
			return err
		}
		n, err := h.service.ApplyBatch(c.Request().Context(), change, listOf(c), items, claim)
		return writeChange(c, change, n, err)
	}
}

// abandon deletes the items with at least min_attempts attempts.
func (h handlers) abandon(c echo.Context, q *query) error {
	attempts, claim := q.number(paramMinAttempts), q.claim()
	if err := q.end(); err != nil {
		return err
	}

	end, err := httpserver.Extend(c, h.long)
	if err != nil {
		return err
	}
	defer end()

	n, err := h.service.Abandon(c.Request().Context(), listOf(c), attempts, claim)
	return writeChange(c, attempt.Delete, n, err)
}

// page returns a page of the list.
func (h handlers) page(c echo.Context, q *query) error {
	count := q.count()
	after, _ := q.take(paramAfter)
	if err := q.end(); err != nil {
		return err
	}
	entries, err := h.service.Page(c.Request().Context(), listOf(c), after, count)
	if err != nil {
		return err
	}
	defer entries.Close()
	return writePage(c, count, entries)
}

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
	return writeCount(c, http.StatusOK, "EXTENDED", n, Changed{Extended: &n}, err)
}

// releaseClaim frees the items that a claim still holds.
func (h handlers) releaseClaim(c echo.Context, q *query) error {
	claim := q.claim()
	if err := q.end(); err != nil {
		return err
	}
	n, err := h.service.Release(c.Request().Context(), listOf(c), claim)
	return writeCount(c, http.StatusOK, "RELEASED", n, Changed{Released: &n}, err)
}

// shortBody is the largest body, in bytes, that must arrive within REQUEST_TIMEOUT; a larger one has BULK_TIMEOUT.
// While it arrives, its request costs no more than a short one, apart from disk space.
const shortBody = 64 << 10
