package faultproxy_test

import (
	"errors"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
)

// TestRefuseWhileProcessesStart: a process that is being started has the port open, too, until it executes its program.
// A new connection is refused all the same.
func TestRefuseWhileProcessesStart(t *testing.T) {
	t.Parallel()
	p, err := faultproxy.Start("127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	address := strings.TrimSuffix(strings.TrimPrefix(p.DSN("postgres://x"), "postgres://"), "?sslmode=disable")
	stop := make(chan struct{})
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := exec.CommandContext(t.Context(), "true").Run(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 200 {
		p.Refuse()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a new connection: %v, want refused", err)
		}
		if err := p.Accept(); err != nil {
			t.Errorf("accept again: %v", err)
		}
	}
	close(stop)
	starting.Wait()
}
