package httpserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// Every error answer of a listener has the form that it was given.
func TestErrorWriterWritesEveryError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{MaxBody: 10}, func(d *Deps) {
		d.WriteError = func(w http.ResponseWriter, r *http.Request, e *problem.Error, traceID string) error {
			w.WriteHeader(e.Kind().Status())
			_, err := fmt.Fprintln(w, e.Kind().Code(), r.URL.Path, traceID != "")
			return err
		}
	})
	f.handle(http.MethodPost, "/fails", func(echo.Context) error { return errors.New("a bug") })
	f.handle(http.MethodPost, "/panics", func(echo.Context) error { panic("a worse bug") })
	for request, want := range map[string]string{
		"GET /nothing": "NOT_FOUND /nothing true\n", "PUT /fails": "METHOD_NOT_ALLOWED /fails true\n",
		"POST /fails": "INTERNAL /fails true\n", "POST /panics": "INTERNAL /panics true\n",
	} {
		method, path, _ := strings.Cut(request, " ")
		if w := f.do(t, method, path, ""); w.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", request, w.Code, w.Body, want)
		}
	}
	if w := f.do(t, "POST", "/fails", "a long body"); w.Code != 413 || w.Body.String() != "BODY_TOO_LARGE /fails true\n" {
		t.Errorf("a long body: %d %q", w.Code, w.Body)
	}
}
