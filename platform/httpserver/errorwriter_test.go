package httpserver

import (
	"errors"
	"github.com/labstack/echo/v4"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/problem"
)

// inWords answers errors with their code and, where there was a request, its path.
func inWords(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error {
	e.SetHeaders(w.Header())
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(e.Kind().Status())
	path := "no request"
	if r != nil {
		path = r.URL.Path
	}
	if traceID == "" {
		path += ", no trace id"
	}
	_, err := io.WriteString(w, e.Kind().Code()+" "+path)
	return err
}

// Every error answer of a listener has the form that it was given.
func TestErrorWriterWritesEveryError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{MaxBody: 10, MaxInFlight: 1}, func(d *Deps) { d.WriteError = inWords })
	entered, leave := make(chan struct{}), make(chan struct{})
	f.handle(http.MethodPost, "/fails", func(c echo.Context) error { return errors.New("a bug") })
	f.handle(http.MethodPost, "/panics", func(c echo.Context) error { panic("a worse bug") })
	f.handle(http.MethodPost, "/waits", func(c echo.Context) error {
		close(entered)
		<-leave
		return nil
	})
	addr := f.start(t)
	for request, want := range map[string]string{
		"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n":                      "404 NOT_FOUND /nothing",
		"PUT /fails HTTP/1.1\r\nHost: x\r\n\r\n":                        "405 METHOD_NOT_ALLOWED /fails",
		"POST /fails HTTP/1.1\r\nHost: x\r\n\r\n":                       "500 INTERNAL /fails",
		"POST /panics HTTP/1.1\r\nHost: x\r\n\r\n":                      "500 INTERNAL /panics",
		"POST /fails HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n": "413 BODY_TOO_LARGE /fails",
	} {
		got := exchangeRaw(t, addr, request)
		status, code, _ := strings.Cut(want, " ")
		if got.body != code || http.StatusText(got.status) == "" || status != statusDigits(got.status) {
			t.Errorf("%.40q: %d %q, want %q", request, got.status, got.body, want)
		}
		if got.header.Get("Content-Type") != "text/plain" {
			t.Errorf("%.40q: %v", request, got.header)
		}
	}
	done := make(chan rawAnswer)
	go func() { done <- exchangeRaw(t, addr, "POST /waits HTTP/1.1\r\nHost: x\r\n\r\n") }()
	<-entered
	got := exchangeRaw(t, addr, "POST /fails HTTP/1.1\r\nHost: x\r\n\r\n")
	if got.status != 503 || got.body != "OVERLOADED /fails" || got.header.Get("Retry-After") == "" {
		t.Errorf("overloaded: %d %q %v", got.status, got.body, got.header)
	}
	close(leave)
	<-done
}

func statusDigits(status int) string {
	return string([]byte{byte('0' + status/100), byte('0' + status/10%10), byte('0' + status%10)})
}
