package guard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePort's range is below the ports that systems use for outgoing connections (Linux from 32768,
// others from 49152). While a server restarts, any process that dials could get such a port. Even a
// client that dials the missing server could: TCP allows it to connect to itself.
const (
	firstPort = 20000
	lastPort  = 31999
)

// FreePort returns a free TCP port of 127.0.0.1 between 20000 and 31999. Another process may take it
// before the caller does; then try another one.
func FreePort(ctx context.Context) (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if IsFree(ctx, port) {
			return port, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between %d and %d", firstPort, lastPort)
}

// IsFree reports whether a server could listen on the port now.
func IsFree(ctx context.Context, port int) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
