package call

import (
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"unicode"

	rowlock "github.com/rowlock/rowlock/client"
)

// headers adds the client's name and a token to each request.
type headers struct {
	next  http.RoundTripper // nil: http.DefaultTransport
	agent string
	token func() (string, error) // nil: requests have no token
}

// RoundTrip sends a copy of the request with the headers. It sends nothing if the
// token cannot be read.
func (h headers) RoundTrip(req *http.Request) (*http.Response, error) {
	next := h.next
	if next == nil {
		next = http.DefaultTransport //nolint:forbidigo // what a nil transport in the caller's client means
	}

	with := req.Clone(req.Context())
	with.Header.Set("User-Agent", strings.TrimSpace(h.agent+" "+req.UserAgent()))
	if h.token == nil {
		return next.RoundTrip(with)
	}

	token, err := h.token()
	// net/http would refuse such a token, and the error would look like a lost answer.
	if token == "" && err == nil || strings.ContainsFunc(token, unfit) {
		err = errors.New("the token is empty, or contains a space or a control character")
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must close it
		}
		return nil, &rowlock.Error{Code: rowlock.ErrUnauthenticated, Detail: err.Error(), Err: err}
	}

	with.Header.Set("Authorization", "Bearer "+token)
	return next.RoundTrip(with)
}

// agent returns the name of this module with its version in this program. In a
// workspace that is devel.
func agent() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/rowlock/rowlock/client" {
				version = strings.Trim(module.Version, "()") // those of (devel) would begin a comment
			}
		}
	}
	return "rowlock-go/" + version
}

func unfit(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
