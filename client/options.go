package rowlock

import (
	"net/http"

	"github.com/rowlock/rowlock/client/internal/settings"
)

// Option changes how a client works. The options are the same for all packages.
type Option func(*settings.Settings)

// WithHTTPClient sends all requests by c, for example to trace them or to bound
// the time that a request may take. Without it a client has connections of its
// own, five seconds to make one, and no other bound but the context's deadline. A
// Timeout of c bounds each attempt.
//
// The services close a connection that carries no request within five seconds,
// and a used one that is idle for a minute. A transport should close it earlier,
// by IdleConnTimeout: a request that meets the close is lost, and its outcome
// unknown.
func WithHTTPClient(c *http.Client) Option {
	return func(s *settings.Settings) { s.HTTP = c }
}

// WithInternalURL sends calls of the internal API of counts to url. Without it
// they go where all calls go.
func WithInternalURL(url string) Option {
	return func(s *settings.Settings) { s.InternalURL = url }
}

// WithToken sends token with every request, as Authorization: Bearer.
func WithToken(token string) Option {
	return func(s *settings.Settings) { s.Token = func() (string, error) { return token, nil } }
}

// WithTokenFile sends the token that the file at path holds with every request, as
// Authorization: Bearer. It reads the file again every few seconds, because
// Kubernetes replaces a projected token before it ends. A call before any token
// could be read is ErrUnauthenticated; later the last one is sent.
func WithTokenFile(path string) Option {
	file := &settings.TokenFile{Path: path}
	return func(s *settings.Settings) { s.Token = file.Token }
}

// WithoutRetries sends each call once. The changes of counts have no keys of their
// own then.
func WithoutRetries() Option {
	return func(s *settings.Settings) { s.WithoutRetries = true }
}

// WithoutKeys gives the changes of counts no keys of their own. The service makes
// 1.4 to 1.7 times as many changes a second without keys (docs/performance.md), but
// a change whose answer is lost is not repeated: its outcome is unknown.
func WithoutKeys() Option {
	return func(s *settings.Settings) { s.WithoutKeys = true }
}
