package httpserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// What a client puts into one path segment is what the handler gets.
func TestPathRoundTrip(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	echoID := func(c echo.Context) error {
		return c.JSON(http.StatusOK, c.Param("itemId"))
	}
	f.handle(http.MethodPost, "/counts/:itemId/increase", echoID)
	f.handle(http.MethodGet, "/counts/:itemId", echoID)
	f.handle(http.MethodGet, "/counts/:itemId/value", echoID)
	f.handle(http.MethodGet, "/counts", answer)
	addr := f.start(t)
	for sent, want := range map[string]string{
		"plain": "plain", "a%2Fb": "a/b", "a%2fb": "a/b", "%2F%2F": "//", "%252F": "%2F", "100%25": "100%", "%25": "%",
		"%25%32%35": "%25", "a+b": "a+b", "a%2Bb": "a+b", "a%20b": "a b", "..": "..", "%2e%2e": "..", ".": ".", "a;b": "a;b",
		"a%3Bb": "a;b", "a=b&c": "a=b&c", "a,b": "a,b", "a:b": "a:b", ":itemId": ":itemId", "*": "*", "%3F": "?", "%23": "#",
		"a%22b": `a"b`, "<b>": "<b>", `\`: `\`, "{itemId}": "{itemId}", "~!$'()@": "~!$'()@", "%F0%9F%98%80": "😀", "😀": "😀",
		"e%CC%81": "e\u0301", "%0A": "\n", "%7F": "\x7f", "increase": "increase",
		strings.Repeat("x", 2000): strings.Repeat("x", 2000),
	} {
		for _, target := range []string{"GET /counts/%s", "POST /counts/%s/increase", "GET http://else/counts/%s?x=/a/b"} {
			line := fmt.Sprintf(target, sent)
			a := exchangeRaw(t, addr, line+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			var got string
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != http.StatusOK || got != want {
				t.Errorf("%s: %d %s, want %q", line, a.status, a.body, want)
			}
		}
	}
	for sent, want := range map[string]string{
		"/counts/%ff": "INVALID_FIELD", "/counts/%00": "INVALID_FIELD", "/counts/\xff": "INVALID_FIELD",
		"/counts/": "NOT_FOUND", "/counts//": "NOT_FOUND", "/counts//value": "NOT_FOUND", "//counts/a": "NOT_FOUND",
		"/counts/../counts/a": "NOT_FOUND", "/": "NOT_FOUND", "/count": "NOT_FOUND", "/counts/a%2Fincrease/": "NOT_FOUND",
		"/%63ounts/a": "NOT_FOUND", "/counts/a/increase": "METHOD_NOT_ALLOWED", "/counts/a/b/increase": "NOT_FOUND",
	} {
		a := exchangeRaw(t, addr, "GET "+sent+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		var d problem.Document
		if err := json.Unmarshal([]byte(a.body), &d); err != nil || d.Code != want || a.status != d.Status {
			t.Errorf("%s: %d %s, want %s", sent, a.status, a.body, want)
		}
	}
}
