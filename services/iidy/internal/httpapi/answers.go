package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// textPlain is the media type of answers in text.
const textPlain = "text/plain; charset=utf-8"

// writeText writes lines, each of which ends in a line break.
func writeText(c echo.Context, status int, body []byte) error {
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return c.Blob(status, textPlain, body)
}

// writeCount writes the number of changed items, unless there was an error: ADDED 8, {"added":8}.
func writeCount(c echo.Context, status int, verb string, n int64, asJSON any, err error) error {
	if err != nil {
		return err
	}
	if answersJSON(c.Request()) {
		return c.JSON(status, asJSON)
	}
	return writeText(c, status, fmt.Appendf(nil, "%s %d\n", verb, n))
}

// writeChange writes the number of items that a change affected, unless there was an error.
func writeChange(c echo.Context, change attempt.Change, n int64, err error) error {
	switch change {
	case attempt.Increment:
		return writeCount(c, http.StatusOK, "INCREMENTED", n, Incremented{n}, err)
	case attempt.Delete:
		return writeCount(c, http.StatusOK, "DELETED", n, Deleted{n}, err)
	case attempt.Add:
	}
	return writeCount(c, http.StatusCreated, "ADDED", n, Added{n}, err)
}

// writeCounts writes the counts of a list's items.
func writeCounts(c echo.Context, counts attempt.Counts) error {
	by := counts.Attempts
	if answersJSON(c.Request()) {
		answer := ItemCounts{Items: counts.Items, Claimed: counts.Claimed}
		a := &answer.Attempts
		a.N0, a.N1, a.N2, a.N3, a.N4, a.N5 = by[0], by[1], by[2], by[3], by[4], by[5]
		return c.JSON(http.StatusOK, answer)
	}

	return writeText(c, http.StatusOK, fmt.Appendf(nil,
		"items %d\nclaimed %d\nattempts 0 %d\nattempts 1 %d\nattempts 2 %d\nattempts 3 %d\nattempts 4 %d\nattempts 5+ %d\n",
		counts.Items, counts.Claimed, by[0], by[1], by[2], by[3], by[4], by[5]))
}

// writePage writes a page. Its headers have the position of the next one.
func writePage(c echo.Context, count int, entries attempt.Entries) error {
	if last := string(entries.Last()); last != "" {
		h := c.Response().Header()
		if inHeader(last) {
			h.Set("X-Iidy-Last-Item", last)
		}
		h.Set("Link", fmt.Sprintf(`<%s%s?count=%d&after_id=%s>; rel="next"`,
			batchPath, pathSegment(c.Param(fieldList)), count, queryValue(last)))
	}

	if answersJSON(c.Request()) {
		return writeDocument(c, len(entries.Lines()), pageDocument{arrayOf(entries)})
	}
	return writeLines(c, entries.Lines())
}

// writeLease writes the items of a claim, or an empty page if there are none.
func writeLease(c echo.Context, l attempt.Lease) error {
	if l.Claim == "" {
		return writePage(c, 0, attempt.Entries{})
	}
	c.Response().Header().Set("X-Iidy-Claim", string(l.Claim))
	if answersJSON(c.Request()) {
		return writeDocument(c, len(l.Entries.Lines()), leaseDocument{l.Claim, l.Until, arrayOf(l.Entries)})
	}
	return writeLines(c, l.Entries.Lines())
}

// inHeader reports whether an item arrives unchanged as the value of a header: without control characters and without
// spaces at either end. The header Link is always exact.
func inHeader(item string) bool {
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	return strings.Trim(item, " \t") == item && strings.IndexFunc(item, control) < 0
}

// pathSegment escapes a name as one segment of a path. It also escapes the dots of "." and "..", which would mean
// another path.
func pathSegment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// queryValue escapes a value. A space becomes %20, because some clients do not decode a plus.
func queryValue(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
