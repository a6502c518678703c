package httpserver

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/problem"
)

// guarded makes a server need tokens of the issuer, by the policy of the service api. Its routes under /admin/ are for
// administrators, and /open is public.
func guarded(t *testing.T, i *authtest.Issuer) func(*Deps) {
	t.Helper()
	m := auth.NewMetrics(prometheus.NewRegistry())
	const policy = `rules: [{subjects: [reader], services: [api], allow: [read]},
		{subjects: [writer], services: [api], allow: [change]}, {subjects: [admin], services: [api], allow: [administer]}]`
	guard, err := auth.New("api", config.Auth{
		Issuer: i.URL, Audience: "rowlock", CAFile: i.CAFile, Policy: i.Environ(t, policy)["AUTH_POLICY"],
	}, m, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(d *Deps) {
		d.Guard = guard
		d.Right = func(method, route string) auth.Right {
			switch {
			case strings.HasPrefix(route, "/admin/"):
				return auth.Administer
			case route == "/open":
				return auth.Public
			}
			return auth.RightOf(method)
		}
	}
}

// answerCaller is a handler that answers who calls.
func answerCaller(c echo.Context) error {
	return c.String(http.StatusOK, "caller "+auth.Caller(c.Request().Context()))
}

func TestRights(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	f := newFixture(t, Config{Docs: Docs{Title: "a", OpenAPI: []byte("openapi: 3.0.3")}}, guarded(t, i))
	for _, route := range []string{"GET /a/:id", "POST /a/:id", "DELETE /a/:id", "GET /admin/:id", "POST /open"} {
		method, path, _ := strings.Cut(route, " ")
		f.handle(method, path, answerCaller)
	}
	const none = ""
	for _, tt := range []struct {
		request string
		want    map[string]int // by subject
	}{
		{"GET /a/1", map[string]int{none: 401, "reader": 200, "writer": 403, "admin": 403, "other": 403}},
		{"HEAD /a/1", map[string]int{none: 401, "reader": 200, "writer": 403}},
		{"OPTIONS /a/1", map[string]int{none: 401, "reader": 204, "writer": 403}},
		{"POST /a/1", map[string]int{none: 401, "reader": 403, "writer": 200, "admin": 403}},
		{"DELETE /a/1", map[string]int{none: 401, "reader": 403, "writer": 200}},
		{"GET /admin/1", map[string]int{none: 401, "reader": 403, "writer": 403, "admin": 200}},
		{"OPTIONS /admin/1", map[string]int{none: 401, "reader": 403, "admin": 204}},
		// No answer shows a caller without a token what there is.
		{"PATCH /a/1", map[string]int{none: 401, "other": 405}},
		{"GET /a/1/", map[string]int{none: 401, "other": 404}},
		{"GET /nothing", map[string]int{none: 401, "other": 404}},
		{"GET /docs/../a/1", map[string]int{none: 401, "other": 404}},
		{"GET /docs/", map[string]int{none: 401, "other": 404}},
		{"POST /docs", map[string]int{none: 401, "other": 405}},
		{"BREW /a/1", map[string]int{none: 401, "other": 405}},
		{"POST /open", map[string]int{none: 200, "other": 200}},
		{"GET /docs", map[string]int{none: 200}},
		{"GET /docs/page.js", map[string]int{none: 200}},
		{"GET /docs/swagger-ui.css", map[string]int{none: 200}},
		{"HEAD /openapi.yaml", map[string]int{none: 200}},
		{"GET /openapi.json", map[string]int{none: 200}},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		for subject, want := range tt.want {
			var headers []string
			if subject != none {
				headers = []string{"Authorization", "Bearer " + i.Token(subject)}
			}
			w := f.do(t, method, path, "", headers...)
			if w.Code != want || want == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s by %q: %d %s, want %d", tt.request, subject, w.Code, w.Body, want)
			}
			if got := w.Body.String(); want == 200 && method == "GET" && strings.HasPrefix(got, "caller") &&
				got != "caller "+subject {
				t.Errorf("%s by %q: the handler knows %q", tt.request, subject, got)
			}
		}
	}
	wantProblem(t, f.do(t, "POST", "/a/1", "", "Sec-Fetch-Site", "cross-site"), problem.Unauthenticated, "")
	wantProblem(t, f.do(t, "POST", "/a/1", "", "Sec-Fetch-Site", "cross-site",
		"Authorization", "Bearer "+i.Token("writer")), problem.CrossSite, "")
}

// A request that is refused is answered before its body is read, and holds neither a permit nor a place of a body.
func TestRefusedBeforeBodyAndPermit(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	f := newFixture(t, Config{MaxInFlight: 1}, guarded(t, i))
	f.handle(http.MethodPost, "/", answer)
	f.admission.permits <- struct{}{} // there is none left
	addr := f.start(t)
	start := time.Now()
	a := exchangeRaw(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nh")
	if a.status != http.StatusUnauthorized || !a.closed {
		t.Errorf("without a token: %+v", a)
	}
	a = exchangeRaw(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n"+
		"Authorization: Bearer "+i.Token("reader")+"\r\n\r\n")
	if a.status != http.StatusForbidden {
		t.Errorf("without the right: %+v", a)
	}
	a = exchangeRaw(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\nContent-Length: 5\r\n"+
		"Authorization: Bearer "+i.Token("writer")+"\r\n\r\nh")
	if a.status != http.StatusForbidden || !a.closed || !strings.Contains(a.body, "CROSS_SITE") {
		t.Errorf("from another origin: %+v", a)
	}
	if took := time.Since(start); took >= bodyTime {
		t.Errorf("the answers took %s", took)
	}
	if awaited, bytes := f.awaited(); awaited != 0 || bytes != 0 {
		t.Errorf("%d bodies are awaited, with %d bytes", awaited, bytes)
	}
	for _, header := range []string{strings.Repeat("x", 64<<10), strings.Repeat("x", 20<<10)} {
		a := exchangeRaw(t, addr, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+header+"\r\n\r\n")
		if want := map[int]int{64 << 10: 431, 20 << 10: 401}[len(header)]; a.status != want {
			t.Errorf("a token of %d bytes: %+v, want %d", len(header), a, want)
		}
	}
}

// Who called is in the log and in the span, with nothing else of the token, and in the context of an extended request.
func TestCallerIsKnown(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	f, spans := tracedFixture(t, guarded(t, i))
	f.handle(http.MethodGet, "/a", func(c echo.Context) error {
		cancel, err := Extend(c, Allowance{Timeout: time.Minute, Patience: time.Minute})
		if err != nil {
			return err
		}
		defer cancel()
		return answerCaller(c)
	})
	token := i.Token("reader")
	if w := f.do(t, "GET", "/a", "", "Authorization", "Bearer "+token); w.Body.String() != "caller reader" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.do(t, "GET", "/a", "", "Authorization", "Bearer "+i.Token("writer"))
	f.do(t, "GET", "/a", "")
	claims := strings.Split(token, ".")[1]
	lines := f.log.lines(t, "request")
	for n, want := range []any{"reader", "writer", nil} {
		if got := lines[n]["caller"]; got != want {
			t.Errorf("line %d has the caller %v, want %v", n, got, want)
		}
		var got any
		for _, a := range spans.Ended()[n].Attributes() {
			if a.Key == "enduser.id" {
				got = a.Value.AsString()
			}
		}
		if all := fmt.Sprint(spans.Ended()[n].Attributes()) + f.log.String(); got != want || strings.Contains(all, claims) {
			t.Errorf("span %d has the caller %v, want %v, and nothing of the token: %s", n, got, want, all)
		}
	}
}

// A token with an invented key is refused for a while as one that may come true, and never counts as a failure: any
// client could use up the error budget.
func TestInventedKeyIsNoFailure(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	f := newFixture(t, Config{}, guarded(t, i))
	f.handle("GET", "/a", answerCaller)
	invented := "Bearer " + i.Token("reader", authtest.KeyID("invented"))
	wantProblem(t, f.do(t, "GET", "/a", "", "Authorization", invented), problem.NotApplied, "")

	got := exposition(t, f.registry)
	if n := got[`http_server_requests_failed_total{server="api"}`]; n != 0 {
		t.Errorf("%v requests count as failed", n)
	}
}
