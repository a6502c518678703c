package apptest

import (
	"io"
	"net/http"
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
)

// Contract checks handlers against their OpenAPI document.
type Contract struct {
	document *openapi3.T
	router   routers.Router
}

// NewContract reads an OpenAPI document, which must be valid.
func NewContract(t testing.TB, document []byte) *Contract {
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
	return &Contract{document: doc, router: router}
}

// Serve lets h answer a request without a connection, and checks the answer with Check. A body makes the request one
// of JSON unless header, names and values in turn, says otherwise.
func (c *Contract) Serve(t testing.TB, h http.Handler, method, target, body string, header ...string) Answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for name, value := range headerOf(body, header) {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := answer(w.Code, w.Header(), w.Body.Bytes())
	c.Check(t, r, a)
	return a
}

// headerOf returns the header of a request with this body: the names and values in turn, and the type JSON for a body
// unless they have another.
func headerOf(body string, pairs []string) map[string]string {
	header := make(map[string]string)
	if body != "" {
		header["Content-Type"] = "application/json"
	}
	for pair := range slices.Chunk(pairs, 2) {
		header[pair[0]] = pair[1]
	}
	return header
}

// Check fails the test when the answer has a status, a header or a body that the contract does not have for the
// request's operation. A request of no operation, such as one with a wrong method, may be answered in any way.
func (c *Contract) Check(t testing.TB, r *http.Request, a Answer) {
	t.Helper()
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 a.Status,
		Header:                 a.Header,
		Body:                   io.NopCloser(strings.NewReader(a.Body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		t.Errorf("%s %s: the answer %s breaks the contract: %v", r.Method, r.URL, a, err)
	}
}

// WantRoutes fails the test unless the routes of e are the operations of the contract.
func (c *Contract) WantRoutes(t testing.TB, e *echo.Echo) {
	t.Helper()
	var operations, routes []string
	for path, item := range c.document.Paths.Map() {
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
