package httpapi

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/platform/httpserver"
)

// format is the format of a body.
type format uint8

const (
	text format = iota
	inJSON
)

// requestFormat returns the format of a request's body: JSON if the Content-Type is JSON, whatever its parameters,
// otherwise text. curl -d sends lines as application/x-www-form-urlencoded.
func requestFormat(r *http.Request) format {
	if httpserver.IsJSON(r.Header) {
		return inJSON
	}
	return text
}

// answerFormat returns the format that the header Accept (RFC 9110, section 12.5.1) prefers if it names text/plain or
// application/json, otherwise the format of the request. Wildcards are ignored.
func answerFormat(r *http.Request) format {
	best, most := requestFormat(r), 0.0
	for _, line := range r.Header["Accept"] {
		for choice := range strings.SplitSeq(line, ",") {
			media, parameters, _ := mime.ParseMediaType(choice)
			f, known := map[string]format{"text/plain": text, "application/json": inJSON}[media]
			weight, err := strconv.ParseFloat(parameters["q"], 64)
			if err != nil {
				weight = 1
			}
			if known && weight > most {
				best, most = f, weight
			}
		}
	}
	return best
}
