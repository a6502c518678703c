package local

import (
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
	"time"
)

// source is a list that a test changes.
type source struct {
	list atomic.Pointer[[]Backend]
}

func (s *source) Backends() []Backend { return *s.list.Load() }

func (s *source) set(addrs ...string) {
	var list []Backend
	for i, addr := range addrs {
		list = append(list, Backend{Name: fmt.Sprintf("counts-%d", i+1), Addr: addr})
	}
	s.list.Store(&list)
}

// balanced serves a balancer before the addresses and returns its URL.
func balanced(t *testing.T, addrs ...string) (string, *source) {
	t.Helper()
	s := &source{}
	s.set(addrs...)
	b := NewBalancer("counts", s)
	ln := listen(t)
	served := make(chan error, 1)
	go func() { served <- b.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "http://" + ln.Addr().String(), s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// refused is an address that nobody listens on.
func refused(t *testing.T) string {
	t.Helper()
	ln := listen(t)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String()
}

// backend is a replica that answers with its request as it came.
func backend(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// cutter is a replica that reads each request to its end and closes without an
// answer; requests counts them.
func cutter(t *testing.T) (addr string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	return backend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests.Add(1)
		panic(http.ErrAbortHandler)
	}), requests
}

type answer struct {
	status int
	header http.Header
	body   string
}

func do(t *testing.T, method, url, body string) answer {
	t.Helper()
	a, err := try(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func try(ctx context.Context, method, url, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	b, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b)}, errors.Join(err, resp.Body.Close())
}

func code(t *testing.T, a answer) string {
	t.Helper()
	var doc struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		t.Fatalf("%q: %v", a.body, err)
	}
	return doc.Code
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
}

// raw sends bytes and returns what comes until the connection ends.
func raw(t *testing.T, addr, request string) string {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}
