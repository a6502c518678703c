package httpserver

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

func TestCrossSite(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	handled := 0
	count := func(c echo.Context) error {
		handled++
		return answer(c)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		f.handle(method, "/", count)
	}
	const site, origin, own, foreign = "Sec-Fetch-Site", "Origin", "http://example.com", "https://evil.example"
	for _, headers := range [][]string{
		{}, {site, "same-origin"}, {site, "none"}, {origin, own}, {site, "same-origin", origin, foreign}, // a proxy's Host
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
			if w := f.do(t, method, "/", "", headers...); w.Code != http.StatusOK {
				t.Errorf("%s with %v: %d %s", method, headers, w.Code, w.Body)
			}
		}
	}
	handled = 0
	for _, headers := range [][]string{
		{site, "cross-site"},
		{site, "same-site"},
		{site, "cross-site", origin, own},
		{origin, foreign},
		{origin, "null"},
		{origin, own + ":81"},
	} {
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			wantProblem(t, f.do(t, method, "/", "", headers...), problem.CrossSite, "")
		}
		for method, want := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 204, "PATCH": 405} {
			if w := f.do(t, method, "/", "", headers...); w.Code != want {
				t.Errorf("%s with %v: %d, want %d", method, headers, w.Code, want)
			}
		}
	}
	if handled != 6*2 {
		t.Errorf("%d requests were handled, want those of GET and HEAD", handled)
	}
}

// A header that asks for another method is refused before the handler, and one that repeats the method is not.
func TestMethodOverride(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.handle(http.MethodPost, "/", answer)
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		if w := f.do(t, "POST", "/", "", name, "DELETE"); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if w := f.do(t, "POST", "/", "", name, "post"); w.Code != http.StatusOK {
			t.Errorf("%s with the same method: %d %s", name, w.Code, w.Body)
		}
	}
}
