package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// balanced returns a balancer of replicas at the addresses, and its own address.
func balanced(t *testing.T, addrs ...string) (string, *Balancer) {
	t.Helper()
	b, err := NewBalancer(t.Context(), "counts", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Stop(context.WithoutCancel(t.Context())) }) // a test may have called it before
	set := &Set{}
	for i, addr := range addrs {
		r := &Replica{name: fmt.Sprintf("counts-%d", i+1), status: Status{Ready: true, API: addr}}
		set.replicas = append(set.replicas, r)
	}
	b.To(set)
	return strings.TrimPrefix(b.URL(), "http://"), b
}

// closedPort returns an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err == nil {
		err = ln.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String()
}

// backend serves h as a replica.
func backend(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// echo answers with the request as it came.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
}

// do sends a request and returns status, headers and body.
func do(ctx context.Context, method, addr, body string) (status int, header http.Header, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/x?a=1", strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Idempotency-Key", "k") // which net/http takes as leave to send a request again
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(raw), errors.Join(err, resp.Body.Close())
}

func TestRequestTargetsPassUnchanged(t *testing.T) {
	t.Parallel()
	addr, _ := balanced(t, backend(t, echo))
	for _, target := range []string{
		"/a%2Fb", "/100%25", "/a+b", "/%2e%2e/x", "/../x", "//x//", "/a;b",
		"/%F0%9F%98%80", "/%00", "/%ff", "/x?itemIds=a;b&itemIds[]=%zz&a",
		"/?", "/x?", "/a%20b?q=%2F+",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", target)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(resp.Body); string(got) != "GET "+target+" " {
			t.Errorf("%s arrived as %q", target, got)
		}
		_ = resp.Body.Close()
		_ = conn.Close()
	}
}

func TestRefusedDialsGoToAnotherReplica(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	addr, _ := balanced(t, closedPort(t), backend(t, func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		echo(w, r)
	}), closedPort(t))
	body := strings.Repeat("x", 1<<20) // larger than any buffer: what a failed dial has read would be missing
	waittest.Together(t, 20, func(int) error {
		status, _, got, err := do(t.Context(), http.MethodPost, addr, body)
		if status != http.StatusOK || got != "POST /x?a=1 "+body {
			err = errors.Join(err, fmt.Errorf("status %d, %d bytes", status, len(got)))
		}
		return err
	})
	if got := served.Load(); got != 20 {
		t.Errorf("served %d times, want 20", got)
	}
}

// A request that was sent is not sent again, on a connection that was used before either: net/http does so by itself
// where it takes a request as repeatable.
func TestASentRequestIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	var changes atomic.Int64
	lost := backend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodGet {
			changes.Add(1)
		}
		if r.ContentLength != 1 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent) // so that the connection is used again
	})
	for name, c := range map[string]struct {
		addrs  []string
		status int // of a change
		code   string
	}{
		"no replica is ready":       {nil, http.StatusServiceUnavailable, "NOT_APPLIED"},
		"no replica can be dialled": {[]string{closedPort(t), closedPort(t)}, http.StatusServiceUnavailable, "NOT_APPLIED"},
		"the reply is lost":         {[]string{lost}, http.StatusInternalServerError, "OUTCOME_UNKNOWN"},
	} {
		addr, _ := balanced(t, c.addrs...)
		for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodGet} {
			if method == http.MethodGet {
				c.status, c.code = http.StatusServiceUnavailable, "NOT_APPLIED"
			}
			_, _, _, _ = do(t.Context(), http.MethodPost, addr, "1")
			status, _, body, err := do(t.Context(), method, addr, "")
			var doc struct{ Code string }
			if err = errors.Join(err, json.Unmarshal([]byte(body), &doc)); err != nil || status != c.status ||
				doc.Code != c.code {
				t.Errorf("%s, %s: %d %s, %v; want %d %s", name, method, status, body, err, c.status, c.code)
			}
		}
	}
	if got := changes.Load(); got != 5 {
		t.Errorf("%d changes arrived, want 5", got)
	}
}
