package rowlock

import (
	"context"
	"net/http"
	"time"

	"github.com/rowlock/rowlock/client/internal/settings"
)

// Option modifies a client. The options are the same for all packages.
type Option func(*settings.Settings)

// WithHTTPClient sends all requests with c, for example to trace them or to limit
// their duration. A Timeout of c limits each attempt. Without this option, a client
// has separate connections, five seconds to make one, and no limit but the context's
// deadline.
//
// The services close an unused connection after five seconds, and a used one after
// their IDLE_TIMEOUT, ten minutes by default, without requests. A transport should
// close it earlier (IdleConnTimeout): a request that crosses the close is lost, and
// its outcome unknown.
//
// Requests have the User-Agent rowlock-go/VERSION, before Connect's in package
// pyggpot. A transport of c may replace it.
func WithHTTPClient(c *http.Client) Option {
	return func(s *settings.Settings) { s.HTTP = c }
}

// WithInternalURL sends calls of counts' internal API to url instead of the base
// URL.
func WithInternalURL(url string) Option {
	return func(s *settings.Settings) { s.InternalURL = url }
}

// WithToken sends token with every request, as Authorization: Bearer.
func WithToken(token string) Option {
	return func(s *settings.Settings) { s.Token = func() (string, error) { return token, nil } }
}

// WithTokenFile sends the token in the file at path with every request, as
// Authorization: Bearer. It rereads the file every few seconds, because Kubernetes
// replaces a projected token before it expires. If no token could be read yet, calls
// return ErrUnauthenticated; later they use the last token.
func WithTokenFile(path string) Option {
	file := &settings.TokenFile{Path: path}
	return func(s *settings.Settings) { s.Token = file.Token }
}

// Attempt describes an attempt that failed and will be repeated.
type Attempt struct {
	// Request is the method and the path, such as "POST /api/v1/counts/a/increase". The
	// path contains the caller's ids.
	Request string
	// Number is 1 for the first attempt of a call.
	Number int
	// Err, an [*Error], says why the attempt failed.
	Err error
	// Pause is the wait before the next attempt.
	Pause time.Duration
}

// WithAttemptHook calls hook for each attempt that a call repeats, for example to log
// or count it. It does so in the goroutine and with the context of the call, before
// the pause, which the context may still end. The last attempt is left out: the call
// returns its error. Several calls may call hook at once. hook must not be nil; of
// several hooks the last one counts.
func WithAttemptHook(hook func(context.Context, Attempt)) Option {
	return func(s *settings.Settings) {
		s.AttemptFailed = func(ctx context.Context, request string, number int, err error, pause time.Duration) {
			hook(ctx, Attempt{Request: request, Number: number, Err: err, Pause: pause})
		}
	}
}

// WithoutRetries sends each call once. Changes of counts then get no generated keys.
func WithoutRetries() Option {
	return func(s *settings.Settings) { s.WithoutRetries = true }
}

// WithoutKeys sends changes of counts without generated keys. The service makes 1.4
// to 1.7 times as many changes a second without keys (docs/performance.md), but a
// change whose answer is lost is not repeated: its outcome is unknown.
func WithoutKeys() Option {
	return func(s *settings.Settings) { s.WithoutKeys = true }
}
