package httpold

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/rowlock/rowlock/platform/problem"
)

// PathParam returns the path's segment that stands for {name}, decoded exactly
// once from URL.EscapedPath(): "a%2Fb" is a/b, "100%25" is 100%, a plus stays a
// plus, and ".." is as good as any other. The router never cleans a path.
//
// A bad escape, bytes that are not UTF-8 and a NUL, which no database stores in
// text, are 400 INVALID_FIELD. A name that the pattern does not have is a
// mistake in the program and becomes INTERNAL.
func PathParam(r *http.Request, name string) (string, error) {
	ex, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok || ex.route == nil {
		return "", fmt.Errorf("httpserver: parameter %q of a request that no route has matched", name)
	}
	for i, known := range ex.route.params {
		if known == name {
			return decodeSegment(ex.params[i], name)
		}
	}
	return "", fmt.Errorf("httpserver: %s has no parameter %q", ex.route.template, name)
}

// countSlashes counts those that part segments; an escaped one does not.
func countSlashes(r *http.Request) int { return strings.Count(r.URL.EscapedPath(), "/") }

func decodeSegment(raw, name string) (string, error) {
	value, err := url.PathUnescape(raw)
	switch {
	case err != nil:
		return "", problem.InvalidField.New("The path's "+name+" has a bad percent escape.", problem.Field(name))
	case !utf8.ValidString(value):
		return "", problem.InvalidField.New("The path's "+name+" is not valid UTF-8.", problem.Field(name))
	case strings.IndexByte(value, 0) >= 0:
		return "", problem.InvalidField.New("The path's "+name+" has a NUL.", problem.Field(name))
	}
	return value, nil
}
