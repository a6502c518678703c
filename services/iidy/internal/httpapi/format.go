package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
)

// format is the form of a body.
type format uint8

const (
	text format = iota
	inJSON
)

// requestFormat is that of the request's body: JSON where the Content-Type says
// so, whatever its parameters; any other type, or none, is text. curl -d says
// application/x-www-form-urlencoded, and means lines.
func requestFormat(r *http.Request) format {
	if httpserver.IsJSON(r.Header) {
		return inJSON
	}
	return text
}

// answerFormat is what the Accept header prefers of the two, where it names one of
// them; else the request's. Wildcards name none. r may be nil.
func answerFormat(r *http.Request) format {
	if r == nil {
		return text
	}
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

// preference reads one media range of an Accept header (RFC 9110, section 12.5.1).
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
