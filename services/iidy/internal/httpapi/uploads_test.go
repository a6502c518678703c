package httpapi_test

import (
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

// The number of concurrent requests with the time of a long one is bounded.
func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	const most = 64
	answers := make(chan int, most)
	var bodies []*io.PipeWriter
	for range most {
		body, w := io.Pipe()
		bodies = append(bodies, w)
		go func() { answers <- s.chunked(http.MethodPost, batch, body).Code }()
		_, _ = w.Write(nil) // returns when the handler reads
	}
	if w := s.chunked("POST", batch, strings.NewReader("a")); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more: %d %q", w.Code, w.Body)
	}
	s.want("POST", batch, "short", plain, 201, "ADDED 1")
	for _, w := range bodies {
		_ = w.Close()
		if status := <-answers; status != 201 {
			t.Errorf("an upload was answered %d", status)
		}
	}
}
