package apptest

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/httpserver"
)

// API calls the handlers of a service without a listener, and checks every answer against its OpenAPI document.
type API struct {
	*httpserver.Server

	t      testing.TB
	router routers.Router
}

// NewAPI serves the handlers that register adds. Bodies may have up to maxBody bytes; 0 selects the default. The test
// fails unless the document is valid and describes exactly the routes.
func NewAPI(
	t testing.TB, document []byte, maxBody int64, deps httpserver.Deps, register func(*echo.Echo),
) *API {
	t.Helper()

	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}

	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}

	deps.Log, deps.Registry = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	server := httpserver.New(httpserver.Config{Name: "api", LogRequests: "none", MaxBody: maxBody}, deps)
	register(server.Echo())
	wantRoutes(t, doc, register)
	return &API{Server: server, t: t, router: router}
}

// wantRoutes fails the test unless the routes that register adds are the operations of the document.
func wantRoutes(t testing.TB, document *openapi3.T, register func(*echo.Echo)) {
	t.Helper()

	e := echo.New() // a Server would add a HEAD for each GET
	register(e)

	var operations, routes []string
	for path, item := range document.Paths.Map() {
		for method := range item.Operations() {
			operations = append(operations, method+" "+path)
		}
	}

	parameter := regexp.MustCompile(`:(\w+)`)
	for _, r := range e.Routes() {
		routes = append(routes, r.Method+" "+parameter.ReplaceAllString(r.Path, "{$1}"))
	}

	slices.Sort(operations)
	slices.Sort(routes)
	if !slices.Equal(operations, routes) {
		t.Errorf("the contract has\n%s\nthe routes are\n%s", strings.Join(operations, "\n"), strings.Join(routes, "\n"))
	}
}

// Do sends a request. A body is sent as JSON unless header, names and values in turn, sets another type. The test fails
// when the document does not describe the answer's status, a header or the body. An answer to a request that is no
// operation, for example because of a wrong method, is not checked.
func (a *API) Do(method, target, body string, header ...string) Answer {
	a.t.Helper()

	r := httptest.NewRequestWithContext(a.t.Context(), method, target, strings.NewReader(body))
	for name, value := range headerOf(body, header) {
		r.Header.Set(name, value)
	}

	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	got := answer(w.Code, w.Header(), w.Body.Bytes())

	route, params, err := a.router.FindRoute(r)
	if err != nil { // not an operation
		return got
	}

	err = openapi3filter.ValidateResponse(a.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 got.Status,
		Header:                 got.Header,
		Body:                   io.NopCloser(strings.NewReader(got.Body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		a.t.Errorf("%s %s: the answer %s breaks the contract: %v", method, target, got, err)
	}

	return got
}

// Want sends a request and compares the status and, unless want is "", the body without its final line break.
func (a *API) Want(method, target, body string, status int, want string, header ...string) Answer {
	a.t.Helper()
	got := a.Do(method, target, body, header...)
	if got.Status != status || want != "" && strings.TrimSuffix(got.Body, "\n") != want {
		a.t.Errorf("%s %s %.80q: %s, want %d %s", method, target, body, got, status, want)
	}
	return got
}

// WantProblem sends a request and compares the status, and the code and field of the problem.
func (a *API) WantProblem(method, target, body string, status int, code, field string, header ...string) Answer {
	a.t.Helper()
	got := a.Do(method, target, body, header...)
	if got.Status != status || got.Code != code || got.Field != field {
		a.t.Errorf("%s %s %.80q: %s, want %d %s %q", method, target, body, got, status, code, field)
	}
	return got
}
