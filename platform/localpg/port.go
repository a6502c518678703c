package localpg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The range that FreePort picks from lies below the ports that systems give to outgoing connections (Linux from 32768, others from
// 49152). A port of that range, free while its server restarts, can be taken by any dialling process, or by a client that dials
// the missing server and, as TCP allows, meets itself.
const (
	firstPort = 20000
	lastPort  = 31999
)

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on, between 20000 and 31999. Somebody may take it before the caller
// does: try again then.
func FreePort(ctx context.Context) (int, error) {
	for range 1000 {
		if port := firstPort + rand.IntN(lastPort-firstPort+1); portFree(ctx, port) {
			return port, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return 0, errors.New("no free port on 127.0.0.1 between " + strconv.Itoa(firstPort) + " and " + strconv.Itoa(lastPort))
}

// portFree says whether a server could listen on the port now.
func portFree(ctx context.Context, port int) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
