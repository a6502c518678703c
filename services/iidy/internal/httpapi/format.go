package httpapi

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
)

// answersJSON reports whether a request gets its answer in JSON and not as text: the header Accept (RFC 9110, section
// 12.5.1) decides if it names text/plain or application/json, otherwise the format of the request. Wildcards are
// ignored.
func answersJSON(r *http.Request) bool {
	best, most := httpserver.IsJSON(r.Header), 0.0
	for _, line := range r.Header["Accept"] {
		for choice := range strings.SplitSeq(line, ",") {
			media, parameters, _ := mime.ParseMediaType(choice)
			weight, err := strconv.ParseFloat(parameters["q"], 64)
			if err != nil {
				weight = 1
			}

			inJSON := media == echo.MIMEApplicationJSON
			if weight > most && (inJSON || media == echo.MIMETextPlain) {
				best, most = inJSON, weight
			}
		}
	}
	return best
}
