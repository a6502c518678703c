package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

const (
	// peerDatabase is that of the older IIDY, on the same server.
	peerDatabase = "iidy_peer"
	// peerPool is how many connections its one process has.
	peerPool = "16"
	// peerStart is how long it may take to make its table and listen.
	peerStart = 10 * time.Second
)

// startPeer starts the older IIDY (github.com/manniwood/iidy) on a database of its own. Only its port can be set: it
// listens on all interfaces.
func (r *runner) startPeer(ctx context.Context) (peer local.Status, databaseURL string, err error) {
	databaseURL = r.postgres.URL(peerDatabase)
	if err := local.Database(ctx, r.postgres.URL("postgres"), peerDatabase); err != nil {
		return peer, "", err
	}
	pool, err := url.Parse(databaseURL)
	if err != nil {
		return peer, "", fmt.Errorf("parse the database's URL: %w", err)
	}
	query := pool.Query()
	query.Set("pool_max_conns", peerPool)
	pool.RawQuery = query.Encode()
	port, err := guard.FreePort(ctx)
	if err != nil {
		return peer, "", fmt.Errorf("find a port: %w", err)
	}
	process, err := guard.Start(guard.Spec{Path: r.Peer, Env: []string{
		"IIDY_PORT=" + strconv.Itoa(port), "IIDY_PG_MIGRATION_URL=" + databaseURL, "IIDY_PG_POOL_URL=" + pool.String(),
	}})
	if err != nil {
		return peer, "", err
	}
	r.onStop(func(ctx context.Context) error {
		_ = process.End(ctx, syscall.SIGTERM) // which it has no other answer to than to die of it
		return ctx.Err()
	})
	peer = local.Status{Name: "the older IIDY", PID: process.PID(), API: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	for begin := time.Now(); ; {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", peer.API)
		if err == nil {
			_ = conn.Close() // nothing was sent
			return peer, databaseURL, nil
		}
		select {
		case <-process.Done():
			return peer, "", errors.Join(fmt.Errorf("%s has ended", r.Peer), process.Err())
		default:
		}
		if time.Since(begin) > peerStart || !sleep(ctx, 20*time.Millisecond) {
			return peer, "", fmt.Errorf("%s does not listen: %w", r.Peer, err)
		}
	}
}
