package call

import (
	"errors"
	"net/http"
	"strings"
	"unicode"

	rowlock "github.com/rowlock/rowlock/client"
)

// bearer adds a token to each request.
type bearer struct {
	next  http.RoundTripper // nil: http.DefaultTransport
	token func() (string, error)
}

// RoundTrip sends a copy of the request with the token. It sends nothing if there is no token.
func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := b.token()
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

	next := b.next
	if next == nil {
		next = http.DefaultTransport //nolint:forbidigo // what a nil transport in the caller's client means
	}

	with := req.Clone(req.Context())
	with.Header.Set("Authorization", "Bearer "+token)
	return next.RoundTrip(with)
}

func unfit(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
