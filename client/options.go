package rowlock

import (
	"net/http"

	"github.com/rowlock/rowlock/client/internal/settings"
)

// Option changes how a client works. The options are the same for all packages.
type Option func(*settings.Settings)

// WithHTTPClient sends all requests by c, for example to trace them or to bound
// the time that a request may take. Without it a client has connections of its
// own and no bound but the context's deadline.
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
