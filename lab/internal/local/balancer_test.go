package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestReplicasTakeTurns(t *testing.T) {
	t.Parallel()
	url, _ := balanced(t, backend(t, echo), backend(t, echo), backend(t, echo))
	got := map[string]int{}
	for range 30 {
		a := do(t, http.MethodPost, url+"/x?a=1", "body")
		if a.status != http.StatusOK || a.body != "POST /x?a=1 body" {
			t.Fatalf("answer %+v", a)
		}
		got[a.header.Get(ServedBy)]++
	}
	for _, name := range []string{"counts-1", "counts-2", "counts-3"} {
		if got[name] != 10 {
			t.Errorf("%s answered %d of 30, want 10", name, got[name])
		}
	}
}

func TestRequestTargetIsLeftAlone(t *testing.T) {
	t.Parallel()
	url, _ := balanced(t, backend(t, echo))
	addr := strings.TrimPrefix(url, "http://")
	for _, target := range []string{
		"/a%2Fb", "/100%25", "/a+b", "/%2e%2e/x", "/../x", "//x//", "/a;b", "/%F0%9F%98%80", "/%00", "/%ff", "/x?itemIds=a;b&itemIds[]=%zz&a",
		"/?", "/x?", "/a%20b?q=%2F+",
	} {
		got := raw(t, addr, "GET "+target+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if want := "GET " + target + " "; !strings.HasSuffix(got, want) {
			t.Errorf("%s arrived as %q", target, got)
		}
	}
}

func TestRefusedDialsGoToAnotherReplica(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	alive := backend(t, func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		echo(w, r)
	})
	url, _ := balanced(t, refused(t), alive, refused(t))
	body := strings.Repeat("x", 1<<20) // does not fit into one buffer: a body read for a failed dial would be missing
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			a, err := try(t.Context(), http.MethodPost, url+"/x", body)
			if err != nil || a.status != http.StatusOK || a.body != "POST /x "+body || a.header.Get(ServedBy) != "counts-2" {
				t.Errorf("status %d, %d bytes, %v", a.status, len(a.body), err)
			}
		})
	}
	wg.Wait()
	if got := served.Load(); got != 20 {
		t.Errorf("served %d times, want 20", got)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string][]string{"none ready": nil, "none reached": {refused(t), refused(t)}} {
		url, _ := balanced(t, addrs...)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			a := do(t, method, url+"/x", "")
			if a.status != http.StatusServiceUnavailable || code(t, a) != "NOT_APPLIED" || a.header.Get("Retry-After") == "" {
				t.Errorf("%s, %s: %+v", name, method, a)
			}
		}
	}
}

func TestASentRequestIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, body, code string
		status             int
	}{
		{http.MethodPost, "", "OUTCOME_UNKNOWN", http.StatusInternalServerError},
		{http.MethodPost, "{}", "OUTCOME_UNKNOWN", http.StatusInternalServerError},
		{http.MethodDelete, "", "OUTCOME_UNKNOWN", http.StatusInternalServerError},
		{http.MethodGet, "", "NOT_APPLIED", http.StatusServiceUnavailable},
	} {
		cut1, n1 := cutter(t)
		cut2, n2 := cutter(t)
		url, _ := balanced(t, cut1, cut2)
		a := do(t, tt.method, url+"/x", tt.body)
		if a.status != tt.status || code(t, a) != tt.code {
			t.Errorf("%s %q: %+v", tt.method, tt.body, a)
		}
		if got := n1.Load() + n2.Load(); got != 1 {
			t.Errorf("%s %q was sent %d times", tt.method, tt.body, got)
		}
	}
}

// A connection that was used before is where net/http sends again what it takes
// for idempotent: a POST with an Idempotency-Key too, if it can get at its body.
func TestAReusedConnectionIsNoExcuse(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	addr := backend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if seen.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	url, _ := balanced(t, addr)
	for range 10 {
		if a := do(t, http.MethodPost, url, "1"); a.status != http.StatusNoContent {
			t.Fatalf("odd request: %+v", a)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("2"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		rec, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = rec.Body.Close()
		if rec.StatusCode != http.StatusInternalServerError {
			t.Fatalf("even request: %s", rec.Status)
		}
	}
	if got := seen.Load(); got != 20 {
		t.Errorf("20 requests arrived %d times", got)
	}
}

func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	one, two := backend(t, echo), backend(t, echo)
	url, s := balanced(t, one)
	for _, step := range []struct {
		addrs []string
		want  int
	}{{[]string{one}, 200}, {nil, 503}, {[]string{two}, 200}, {[]string{one, two}, 200}} {
		s.set(step.addrs...)
		if a := do(t, http.MethodGet, url, ""); a.status != step.want {
			t.Errorf("with %v: %d, want %d", step.addrs, a.status, step.want)
		}
	}
}

// A service refuses a body that is too large before it has read it. The answer
// must not get lost in the body that is still on its way.
func TestAnEarlyRefusalReachesTheClient(t *testing.T) {
	t.Parallel()
	addr := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10)); err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		}
	})
	url, _ := balanced(t, addr)
	for range 20 {
		if got := early(t, strings.TrimPrefix(url, "http://"), 10<<20); got != http.StatusRequestEntityTooLarge {
			t.Fatalf("status %d", got)
		}
	}
}

// early posts a body and reads the answer while it still writes, as curl does.
func early(t *testing.T, addr string, size int) (status int) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = fmt.Fprintf(conn, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size)
		_, _ = conn.Write(make([]byte, size)) // cut off when the server has had enough
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	_ = conn.Close()
	<-written
	return resp.StatusCode
}

func TestALargeHeaderIsForTheService(t *testing.T) {
	t.Parallel()
	url, _ := balanced(t, backend(t, echo))
	got := raw(t, strings.TrimPrefix(url, "http://"),
		"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Long: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("%.80q", got)
	}
}

func TestAClientThatLeavesIsNotRetried(t *testing.T) {
	t.Parallel()
	arrived, left := make(chan struct{}, 2), make(chan struct{})
	addr := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices a lost client only after the body was read
		arrived <- struct{}{}
		<-r.Context().Done()
		close(left)
	})
	url, _ := balanced(t, addr, refused(t))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := try(ctx, http.MethodPost, url, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-left // the replica learnt of it
	if n := len(arrived); n != 0 {
		t.Errorf("%d more requests arrived", n)
	}
}
