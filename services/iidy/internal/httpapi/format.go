package httpapi

import (
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

// answerFormat returns the format that the header Accept prefers if it names text/plain or application/json, otherwise
// the format of the request. Wildcards are ignored.
func answerFormat(r *http.Request) format {
	best, weight := requestFormat(r), 0.0
	for _, line := range r.Header["Accept"] {
		for choice := range strings.SplitSeq(line, ",") {
			f, q, ok := preference(choice)
			if ok && q > weight {
				best, weight = f, q
			}
		}
	}
	return best
}

// preference parses one media range of an Accept header (RFC 9110, section 12.5.1).
func preference(choice string) (f format, weight float64, ok bool) {
	media, parameters, _ := strings.Cut(choice, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/plain":
		f = text
	case "application/json":
		f = inJSON
	default:
		return 0, 0, false
	}

	weight = 1
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if q, err := strconv.ParseFloat(value, 64); strings.EqualFold(name, "q") && err == nil {
			weight = q
		}
	}
	return f, weight, true
}
