package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// chunked sends a body whose length is not declared, with headers in pairs.
func chunked(s *server, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, io.MultiReader(strings.NewReader(body)))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	return w
}

// A body without a declared length is one when it has a byte.
func TestChunkedBodies(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	if w := chunked(s, http.MethodPost, batch, "a\nb\n"); w.Body.String() != "ADDED 2\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if w := chunked(s, http.MethodDelete, batch, ""); w.Code != http.StatusBadRequest {
		t.Errorf("a delete of nothing at all: %d %q", w.Code, w.Body)
	}
	if w := chunked(s, http.MethodDelete, batch+"?min_attempts=1", ""); w.Code != http.StatusOK {
		t.Errorf("abandon with an empty body: %d %q", w.Code, w.Body)
	}
	if w := chunked(s, http.MethodDelete, batch+"?min_attempts=1", "a"); w.Code != http.StatusBadRequest {
		t.Errorf("abandon with items: %d %q", w.Code, w.Body)
	}
	if w := chunked(s, http.MethodDelete, batch, "a\n"); w.Body.String() != "DELETED 1\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// Two types are none: what is JSON to one reader would be an item to the other.
func TestTwoContentTypes(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	w := chunked(s, http.MethodPost, batch, `{"items":["a"]}`, "Content-Type", "application/json", "Content-Type", "application/json")
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// Only so many calls at once are given the time of a long one.
func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	const most = 64
	begun, end := make(chan struct{}, most), make(chan struct{})
	answers := make(chan int, most)
	for range most {
		go func() {
			body := &held{begun: begun, end: end}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, batch, body)
			w := httptest.NewRecorder()
			s.http.ServeHTTP(w, r)
			answers <- w.Code
		}()
	}
	for range most {
		<-begun
	}
	if w := chunked(s, http.MethodPost, batch, "a"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more: %d %q", w.Code, w.Body)
	}
	s.want("POST", batch, "short", plain(), http.StatusCreated, "ADDED 1")
	close(end)
	for range most {
		if status := <-answers; status != http.StatusCreated {
			t.Errorf("an upload was answered %d", status)
		}
	}
	if w := chunked(s, http.MethodPost, batch, "a"); w.Code != http.StatusCreated {
		t.Errorf("afterwards: %d %q", w.Code, w.Body)
	}
}

// held is a body that ends when it is told to.
type held struct{ begun, end chan struct{} }

func (b *held) Read([]byte) (int, error) {
	b.begun <- struct{}{}
	<-b.end
	return 0, io.EOF
}
