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
	next  http.RoundTripper // nil for that of net/http
	token func() (string, error)
}

// RoundTrip sends a copy of the request with the token. Without a token it sends nothing.
func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := b.token()
	if token == "" && err == nil || strings.ContainsFunc(token, unfit) { // net/http would not send it, and say ANSWER_LOST
		err = errors.New("the token is empty, or has a space or a control character")
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, &rowlock.Error{Code: rowlock.ErrUnauthenticated, Detail: err.Error(), Err: err}
	}
	next := b.next
	if next == nil {
		next = http.DefaultTransport //nolint:forbidigo // the caller's client has no transport, which stands for this one
	}
	with := req.Clone(req.Context())
	with.Header.Set("Authorization", "Bearer "+token)
	return next.RoundTrip(with) //nolint:wrapcheck // Lost classifies it
}

func unfit(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
