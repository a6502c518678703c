package httpserver

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// bound is a server whose routes bind a body: one without required members, and one with.
func bound(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, Config{})
	f.handle(http.MethodPost, "/optional", func(c echo.Context) error {
		body := struct {
			Amount int `json:"amount,omitempty"`
		}{1}
		if err := c.Bind(&body); err != nil {
			return err
		}
		return c.JSON(http.StatusOK, body)
	})
	f.handle(http.MethodPost, "/required", func(c echo.Context) error {
		var body struct {
			Amount int `json:"amount"`
		}
		return c.Bind(&body)
	})
	return f
}

func TestBindMediaTypes(t *testing.T) {
	t.Parallel()
	f := bound(t)
	const contentType, encoding = "Content-Type", "Content-Encoding"
	for _, fine := range [][]string{
		{},
		{contentType, ""},
		{contentType, "application/json"},
		{contentType, " Application/JSON ;charset=\"utf-8\""},
		{contentType, "application/problem+json; x=y"},
		{contentType, "application/json", encoding, "Identity"},
	} {
		if w := f.do(t, "POST", "/optional", `{"amount":2}`, fine...); w.Code != http.StatusOK {
			t.Errorf("%q: %d %s", fine, w.Code, w.Body)
		}
	}
	for _, refused := range [][]string{
		{contentType, "text/plain"},
		{contentType, "text/json"},
		{contentType, "application/x-www-form-urlencoded"},
		{contentType, "application/jsonp"},
		{contentType, "application/json, text/plain"},
		{contentType, "+json"},
		{contentType, "application/+json"},
		{contentType, "/x+json"},
		{contentType, "application/json", encoding, "gzip"},
		{contentType, "application/json", contentType, "text/plain"},
	} {
		w := f.do(t, "POST", "/optional", `{"amount":2}`, refused...)
		if w.Code != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d %s", refused, w.Code, w.Body)
			continue
		}
		wantProblem(t, w, problem.UnsupportedMediaType, "")
	}
}

// An absent or blank body stands for an object without members, where none is required.
func TestBindWithoutBody(t *testing.T) {
	t.Parallel()
	f := bound(t)
	for _, body := range []string{"", " \r\n\t"} {
		if w := f.do(t, "POST", "/optional", body); w.Body.String() != `{"amount":1}`+"\n" {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
		wantProblem(t, f.do(t, "POST", "/required", body), problem.InvalidJSON, "")
	}
	wantProblem(t, f.do(t, "POST", "/optional", "null"), problem.InvalidJSON, "")
	wantProblem(t, f.do(t, "POST", "/required", "{}"), problem.InvalidField, "amount")
}

// An answer is compact whatever the client asks for, and one that cannot be encoded is a bug, not half an answer.
func TestJSON(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.handle(http.MethodGet, "/fine", func(c echo.Context) error { return c.JSON(http.StatusOK, map[string]int{"n": 1}) })
	f.handle(http.MethodGet, "/bad", func(c echo.Context) error {
		return c.JSON(http.StatusOK, []any{1, func() {}})
	})
	if w := f.do(t, "GET", "/fine?pretty", ""); w.Body.String() != "{\"n\":1}\n" {
		t.Errorf("%q", w.Body)
	}
	wantProblem(t, f.do(t, "GET", "/bad", ""), problem.Internal, "")
}
