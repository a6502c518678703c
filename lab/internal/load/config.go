package load

import (
	"errors"
	"fmt"
	"time"
)

// Config says what to send, where to and for how long.
type Config struct {
	// Targets are the addresses (host:port) of the servers. Connections are dealt to them in turn, so each gets an
	// equal share.
	Targets []string
	// Requests are complete HTTP/1.1 requests, body included. [Run] draws one at random, each equally likely, for every
	// request.
	Requests [][]byte
	// Next returns the request to send instead of one of Requests; many goroutines call it at once, and
	// what it returns is sent unless the run is canceled. [Once] does not use it.
	Next func() []byte
	// Connections is the number of connections over all targets, and so the most requests that can be in flight.
	Connections int
	// Rate is the number of requests a second of an open loop; 0 means a closed loop.
	Rate float64
	// Warmup precedes Duration and is left out of every figure but those of [Tally].
	Warmup time.Duration
	// Duration is the length of the measured window.
	Duration time.Duration
	// Timeout is how long one answer may take; 0 means 15 s. An answer may take a tenth longer before it counts as
	// timed out.
	Timeout time.Duration
}

const defaultTimeout = 15 * time.Second

func (c *Config) validate() error {
	switch {
	case len(c.Targets) == 0:
		return errors.New("load: no target is given")
	case len(c.Requests) == 0 && c.Next == nil:
		return errors.New("load: no request is given")
	case c.Connections < len(c.Targets):
		return fmt.Errorf("load: %d connections do not reach all %d targets", c.Connections, len(c.Targets))
	case c.Rate < 0 || c.Warmup < 0 || c.Duration < 0 || c.Timeout < 0:
		return errors.New("load: the rate or a duration is negative")
	}

	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}

	return nil
}
