// Package settings holds what the options of package rowlock set.
package settings

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Settings are common to the clients of all services.
type Settings struct {
	// HTTP sends the requests.
	HTTP *http.Client
	// InternalURL is the address of counts' internal API; empty: the address of its API.
	InternalURL string
	// Token returns the token for each request; nil: requests have no token.
	Token func() (string, error)
	// AttemptFailed hears of each attempt that is repeated after the pause.
	AttemptFailed func(ctx context.Context, request string, number int, err error, pause time.Duration)
	// WithoutRetries and WithoutKeys turn off retries and generated keys.
	WithoutRetries, WithoutKeys bool
}

const (
	// idleTimeout is shorter than the five seconds after which the services close an unused connection.
	idleTimeout = 2 * time.Second
	idlePerHost = 64
	// dialTimeout bounds connecting: a repeat that began in time must not be sent minutes later, when the service may
	// have forgotten its key.
	dialTimeout = 5 * time.Second
)

// Default returns the settings without any option.
func Default() Settings {
	return Settings{
		HTTP: &http.Client{Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, ForceAttemptHTTP2: true,
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleTimeout,
		}},
		AttemptFailed: func(context.Context, string, int, error, time.Duration) {},
	}
}
