package httpserver

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// deadlines is an answer whose connection has a read deadline.
type deadlines struct {
	http.ResponseWriter
	net.Conn
}

func (d deadlines) Write(p []byte) (int, error) { return d.ResponseWriter.Write(p) }

// SetReadDeadline succeeds when the other end is closed, as a TCP connection does.
func (d deadlines) SetReadDeadline(t time.Time) error {
	_ = d.Conn.SetReadDeadline(t)
	return nil
}

// A client below minRate is cut, whatever it sent before; one above it may take until the end, and one that waits for a
// handler that does not read is not to blame.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	const patience, timeout = 10 * time.Second, 10 * time.Minute
	send := func(n int) func(net.Conn) { return func(c net.Conn) { _, _ = c.Write(make([]byte, n)) } }
	rest := func(d time.Duration) func(net.Conn) { return func(net.Conn) { time.Sleep(d) } }
	type steps []func(net.Conn)
	times := func(n int, s ...func(net.Conn)) (all steps) {
		for range n {
			all = append(all, s...)
		}
		return all
	}
	for name, c := range map[string]struct {
		client steps
		reader time.Duration // what the handler does after each read
		within time.Duration // this time it is cut, 0 for a body that arrives
	}{
		"2 bytes each 8 s":      {times(75, send(2), rest(8*time.Second)), 0, patience + time.Second},
		"a burst, then silence": {append(times(1, send(1<<20)), rest(time.Minute)), 0, patience},
		"a burst, then 2 bytes": {
			append(times(1, send(1<<20)), times(9, rest(4*time.Second), send(2))...), 0, patience + time.Second,
		},
		"1 KiB a second for 5 min":  {times(300, send(1<<10), rest(time.Second)), 0, 0},
		"a handler that is slow":    {times(30, send(100)), time.Minute / 4, 0},
		"fast enough, but too long": {times(700, send(1100), rest(time.Second)), 0, timeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, client := net.Pipe()
				begin := time.Now()
				var sent sync.WaitGroup
				sent.Go(func() {
					for _, step := range c.client {
						step(client)
					}
					_ = client.Close()
				})
				b := &slowBody{
					ReadCloser: server, conn: http.NewResponseController(deadlines{Conn: server}),
					deadline: begin.Add(timeout), most: patience, patience: patience,
				}
				err := readSlowly(b, c.reader)
				if took := time.Since(begin); c.within == 0 && err != nil ||
					c.within != 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took > c.within) {
					t.Errorf("%v after %s", err, took)
				}
				_ = server.Close()
				sent.Wait()
			})
		})
	}
}

// readSlowly reads all, with a pause after each read.
func readSlowly(r io.Reader, pause time.Duration) error {
	buf := make([]byte, 16<<10)
	for {
		_, err := r.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		time.Sleep(pause)
	}
}
