package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/dbtest"
	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/api"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/httpapi"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// server serves the port on a repository.
type server struct {
	t      *testing.T
	http   *httpserver.Server
	router routers.Router
}

func newServer(t *testing.T, repo attempt.Repository, changes ...func(*httpserver.Config)) *server {
	t.Helper()
	cfg := httpserver.Config{Name: "api", LogRequests: "none", MaxBody: 64 << 20}
	for _, change := range changes {
		change(&cfg)
	}
	s, err := httpserver.New(cfg, httpserver.Deps{
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		Errors: []func(error) *problem.Error{httpapi.Problem, coalesce.Problem}, WriteError: httpapi.WriteError,
	})
	if err != nil {
		t.Fatal(err)
	}
	httpapi.Register(s, attempt.NewService(repo), httpapi.Options{BulkTimeout: time.Minute, BulkStall: time.Second})

	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
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
	return &server{t: t, http: s, router: router}
}

type answer struct {
	status int
	header http.Header
	body   string
}

// The headers of a request.
func plain() map[string]string { return map[string]string{} }

func asJSON() map[string]string {
	return map[string]string{"Content-Type": "application/json; charset=utf-8"}
}

func form() map[string]string {
	return map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
}

func accept(value string, more map[string]string) map[string]string {
	header := map[string]string{"Accept": value}
	maps.Copy(header, more)
	return header
}

// do sends a request and holds the answer against the contract.
func (s *server) do(method, path, body string, header map[string]string) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	if body == "" {
		r.Body = http.NoBody
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	a := answer{w.Code, w.Header(), w.Body.String()}
	s.checkContract(r, a)
	if kind := a.header.Get("Content-Type"); a.body != "" && !strings.HasSuffix(a.body, "\n") {
		s.t.Errorf("%s %s: an answer of type %s does not end in a line break: %q", method, path, kind, a.body)
	}
	return a
}

func (s *server) checkContract(r *http.Request, a answer) {
	s.t.Helper()
	route, params, err := s.router.FindRoute(r)
	if err != nil {
		return // not in the contract, such as a wrong method
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 a.status,
		Header:                 a.header,
		Body:                   io.NopCloser(bytes.NewReader([]byte(a.body))),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		s.t.Errorf("%s %s: the answer %d %s breaks the contract: %v", r.Method, r.URL, a.status, a.body, err)
	}
}

// want demands status and body to the byte, which has its line break added.
func (s *server) want(method, path, body string, header map[string]string, status int, want string) answer {
	s.t.Helper()
	a := s.do(method, path, body, header)
	if a.status != status || a.body != want+"\n" && (want != "" || a.body != "") {
		s.t.Errorf("%s %s %.60q: %d %q, want %d %q", method, path, body, a.status, a.body, status, want)
	}
	return a
}

// refused demands an error in both formats, whatever the request's own is.
func (s *server) refused(method, path, body string, header map[string]string, status int, code, field string) {
	s.t.Helper()
	inText := s.do(method, path, body, accept("text/plain", header))
	in := s.do(method, path, body, accept("application/json", header))
	var doc struct{ Code, Field, Detail, Error, Type string }
	if err := json.Unmarshal([]byte(in.body), &doc); err != nil {
		s.t.Fatalf("%s %s: %q: %v", method, path, in.body, err)
	}
	if in.status != status || doc.Code != code || doc.Field != field || doc.Type != "about:blank" || doc.Error != doc.Detail {
		s.t.Errorf("%s %s %.60q: %d %s, want %d %s %q", method, path, body, in.status, in.body, status, code, field)
	}
	if inText.status != status || inText.body != doc.Error+"\n" || !strings.HasPrefix(inText.header.Get("Content-Type"), "text/plain") {
		s.t.Errorf("%s %s %.60q: as text %d %q, as JSON %q", method, path, body, inText.status, inText.body, doc.Error)
	}
	for _, a := range []answer{in, inText} {
		if got := a.header.Get("X-Error-Code"); got != code {
			s.t.Errorf("%s %s: X-Error-Code %q, want %s", method, path, got, code)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// onDatabase serves lists of a database of their own.
func onDatabase(t *testing.T) *server {
	t.Helper()
	reg := prometheus.NewRegistry()
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: dbtest.Postgres(t, postgres.Migrations()), MaxOpenConns: 8, LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute,
		Session: postgres.Session(),
	}, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	store, err := postgres.New(db, postgres.Options{
		MaxOpenConns: 8, LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute, BulkTimeout: time.Minute, BulkStall: time.Minute,
	}, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(store.Close(context.WithoutCancel(t.Context())), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return newServer(t, store)
}

const (
	batch = "/iidy/v1/batch/lists/downloads"
	items = "/iidy/v1/lists/downloads"
)
