package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// chunked sends a body whose length is not declared.
func (s *server) chunked(method, path string, body io.Reader, contentTypes ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.Context(), method, path, io.MultiReader(body))
	r.Header["Content-Type"] = contentTypes
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// A body without a declared length is one when it has a byte.
func TestChunkedBodies(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", batch, "a\nb\n", 201},
		{"DELETE", batch, "", 400},
		{"DELETE", batch + "?min_attempts=1", "", 200},
		{"DELETE", batch + "?min_attempts=1", "a", 400},
		{"DELETE", batch, "a\n", 200},
	} {
		if w := s.chunked(c.method, c.path, strings.NewReader(c.body)); w.Code != c.status {
			t.Errorf("%s %s %q: %d %s, want %d", c.method, c.path, c.body, w.Code, w.Body, c.status)
		}
	}
	// What one reader takes for JSON would be an item to another.
	two := s.chunked("POST", batch, strings.NewReader(`{"items":["a"]}`), "application/json", "application/json")
	if two.Code != http.StatusUnsupportedMediaType {
		t.Errorf("two types: %d %s", two.Code, two.Body)
	}
	s.want("GET", batch+"?count=9", "", plain, 200, "b 0")
	limited := newServer(t, sink{}, 100)
	for contentType, body := range map[string]string{
		"text/plain": strings.Repeat("a\n", 51), "application/json": `{"items":["a"` + strings.Repeat(" ", 100) + `]}`,
	} {
		if w := limited.chunked("POST", batch, strings.NewReader(body), contentType); w.Code != 413 {
			t.Errorf("%s above MAX_BODY: %d %s", contentType, w.Code, w.Body)
		}
	}
}

// A long body goes to the spool while it arrives. One for which there is no room is 503, before it is sent where its
// length is declared, and applies nothing; whatever the answer, the bytes are given back.
func TestSpoolIsBounded(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	lines := numbered(60_000) // 480 KiB
	first, w := io.Pipe()
	answer := make(chan int, 1)
	go func() { answer <- s.chunked(http.MethodPost, batch, first).Code }()
	_, _ = io.WriteString(w, lines)
	_, _ = io.WriteString(w, lines) // returns when at least the first 470 KiB are in the spool
	second := strings.Repeat(lines, 2)
	refused := s.chunked(http.MethodPost, batch, strings.NewReader(second))
	h := refused.Header()
	if refused.Code != 503 || h.Get("X-Error-Code") != "OVERLOADED" || h.Get("Retry-After") == "" {
		t.Errorf("a body that the spool cannot keep: %d %v %s", refused.Code, h, refused.Body)
	}
	unread := strings.NewReader(second)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, batch, unread)
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	if rec.Code != 503 || len(second)-unread.Len() > 64<<10+1 { // what is read before the handler is called
		t.Errorf("a declared length: %d, and %d of %d bytes were read", rec.Code, len(second)-unread.Len(), len(second))
	}
	s.want("GET", batch+"?count=1", "", plain, 200, "")
	_ = w.CloseWithError(io.ErrUnexpectedEOF) // the client leaves
	if status := <-answer; status != 400 {
		t.Errorf("the client that left: %d", status)
	}
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{strings.Repeat(lines, 2), "ADDED 60000", 201},
		{numbered(10_000), "ADDED 0", 201},
		{lines + "\xff", "Line 60001: the item is not valid: it is not valid UTF-8.", 400},
	} {
		s.want("POST", batch, c.body, plain, c.status, c.want)
		if free := s.spool.Free(); free != maxSpool {
			t.Errorf("after %d %s %d bytes of the spool are free, want %d", c.status, c.want, free, maxSpool)
		}
	}
}

// numbered returns n lines of 8 bytes.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.String()
}
