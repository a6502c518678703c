// Package hostile attacks a service from outside, as any client that reaches its port
// can: it holds connections, sends and reads too slowly, asks from a foreign page, and
// sends what is malformed. It knows no service; a [Victim] holds what to send.
package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/fault"
)

// Victim holds what is sent to a service, and counts the answers that it should not have given.
type Victim struct {
	// Addrs returns the addresses of the replicas that take requests.
	Addrs func() []string
	// Crowd is how many clients each hold one request open: more than the replicas may have in flight.
	Crowd int
	// Change changes something that no other client uses. Begun lacks most of a short body, and Upload of a long one.
	Change, Begun, Upload string
	// Large requests have the longest answers possible.
	Large []string
	// Bad must be answered 4xx.
	Bad []string

	next  atomic.Uint64 // replica
	mu    sync.Mutex
	wrong map[string]int
}

// Get returns a request.
func Get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: hostile\r\n\r\n" }

// Post returns a request that declares missing bytes more than the body has.
func Post(path, contentType, body string, missing int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: hostile\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		path, contentType, len(body)+missing, body)
}

// with returns the request with one more line in its header.
func with(request, line string) string {
	return strings.Replace(request, "\r\n", "\r\n"+line+"\r\n", 1)
}

// How many connections each attack holds to the replicas of a service together.
const (
	uploaders = 60
	readers   = 3
)

// apart is the shortest time from one connection of a client to its next, and rest from one call of a caller to its
// next. The attackers share the machine with the services, and must leave them enough of its processors.
const (
	apart = 8 * time.Second
	rest  = 5 * time.Second / 2
	ramp  = 5 * time.Second // in which they begin
)

// Attacks returns the attacks. Each lasts until its context ends, closes its connections and returns how many requests
// it has sent.
func (v *Victim) Attacks() map[fault.Action]fault.Attack {
	return map[fault.Action]fault.Attack{
		fault.OneByte:    v.oneByte,
		fault.SlowUpload: v.slowUpload,
		fault.NotReading: v.notReading,
		fault.CrossSite:  v.crossSite,
		fault.Malformed:  v.malformed,
	}
}

// Wrong counts the answers that the service should not have given, by what they were.
func (v *Victim) Wrong() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.wrong)
}

// Accuse counts an answer that the service should not have given.
func (v *Victim) Accuse(what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.wrong == nil {
		v.wrong = map[string]int{}
	}
	v.wrong[what]++
}

// oneByte sends headers and one byte of each body, and waits.
func (v *Victim) oneByte(ctx context.Context) int {
	return v.connections(ctx, v.Crowd, func(conn net.Conn, _ int) {
		if _, err := conn.Write([]byte(v.Begun)); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // until it is answered or cut
		}
	})
}

// slowUpload sends a byte a second.
func (v *Victim) slowUpload(ctx context.Context) int {
	return v.connections(ctx, uploaders, func(conn net.Conn, _ int) {
		_, err := conn.Write([]byte(v.Upload))
		for err == nil && fault.Wait(ctx, 3*time.Second) {
			_, err = conn.Write([]byte("aaa"))
		}
	})
}

// notReading asks for eight long answers on each connection and reads a byte of them a second.
func (v *Victim) notReading(ctx context.Context) int {
	return v.connections(ctx, readers, func(conn net.Conn, i int) {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4 << 10) // so that the kernel takes little of them
		}
		_, err := conn.Write([]byte(strings.Repeat(v.Large[i%len(v.Large)], 8)))
		for err == nil && fault.Wait(ctx, time.Second) {
			_, err = conn.Read(make([]byte, 1))
		}
	})
}

// crossSite sends a change as a browser does for a page of another origin, which must be 403.
func (v *Victim) crossSite(ctx context.Context) int {
	requests := []string{with(v.Change, "Sec-Fetch-Site: cross-site"), with(v.Change, "Origin: https://hostile.example")}
	return v.ask(ctx, time.Second/3, requests, func(status int) bool { return status == http.StatusForbidden })
}

// malformed sends what is not a request that the service knows, which must be 4xx.
func (v *Victim) malformed(ctx context.Context) int {
	requests := append([]string{
		"\x00\r\n\r\n", with(v.Change, "X-Long: "+strings.Repeat("x", 40<<10)), strings.Replace(v.Change, "POST", "BREW", 1),
	}, v.Bad...)
	return v.ask(ctx, time.Second/5, requests, func(status int) bool { return status/100 == 4 })
}

// ask sends one of the requests at each interval until ctx ends, and returns how many. An answer that is not right
// counts as wrong.
func (v *Victim) ask(
	ctx context.Context, interval time.Duration, requests []string, right func(status int) bool,
) (n int) {
	for ; fault.Wait(ctx, interval); n++ {
		request := requests[n%len(requests)]
		v.session(ctx, func(conn net.Conn) {
			_, _ = conn.Write([]byte(request)) // the answer may come, and the connection be closed, before all is sent
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return
			}
			_ = resp.Body.Close()
			if !right(resp.StatusCode) {
				v.Accuse(fmt.Sprintf("%.80q answered %d", request, resp.StatusCode))
			}
		})
	}
	return n
}

// Callers lets n callers call at once, each again and again: after the time that a refusal names, and some seconds. It
// returns the number of calls, and waits for the answers of all.
func Callers(ctx context.Context, n int, call func(ctx context.Context) error) int {
	return together(n, func(int) (calls int) {
		for pause := rand.N(ramp); fault.Wait(ctx, pause); calls++ {
			pause = rest + rand.N(rest)
			if refusal, ok := errors.AsType[*rowlock.Error](call(context.WithoutCancel(ctx))); ok {
				pause += refusal.RetryAfter
			}
		}
		return calls
	})
}

// connections lets n clients connect again and again for a session each, and returns how many there were.
func (v *Victim) connections(ctx context.Context, n int, session func(conn net.Conn, i int)) int {
	return together(n, func(i int) (opened int) {
		for pause := rand.N(ramp); fault.Wait(ctx, pause); opened++ {
			begin := time.Now()
			v.session(ctx, func(conn net.Conn) { session(conn, i) })
			pause = max(0, apart-time.Since(begin)) + rand.N(ramp)
		}
		return opened
	})
}

// session connects to the next replica for the time of do, and until ctx ends at most.
func (v *Victim) session(ctx context.Context, do func(conn net.Conn)) {
	addrs := v.Addrs()
	if len(addrs) == 0 {
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addrs[v.next.Add(1)%uint64(len(addrs))])
	if err != nil {
		return
	}
	hangUp := func() { _ = conn.Close() }
	defer hangUp()
	stop := context.AfterFunc(ctx, hangUp)
	defer stop()
	do(conn)
}

// together calls do n times at once and returns the sum of the results.
func together(n int, do func(i int) int) int {
	var all sync.WaitGroup
	var sum atomic.Int64
	for i := range n {
		all.Go(func() { sum.Add(int64(do(i))) })
	}
	all.Wait()
	return int(sum.Load())
}
