package httpapi_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/iidy/api"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/httpapi"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
	"github.com/rowlock/rowlock/services/iidy/internal/spool"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const (
	batch          = "/iidy/v1/batch/lists/downloads"
	items          = "/iidy/v1/lists/downloads"
	incrementItems = "/iidy/v1/increment/lists/downloads"
	incrementBatch = "/iidy/v1/increment/batch/lists/downloads"
	claim          = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
)

// server serves a repository.
type server struct {
	*testing.T
	*apptest.API

	spool *spool.Spool
}

const maxSpool = 1 << 20 // bytes

func newServer(t *testing.T, repo attempt.Repository, maxBody int64) *server {
	t.Helper()
	files, err := spool.New(t.TempDir(), maxSpool, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	deps := httpserver.Deps{
		Errors: []func(error) *problem.Error{httpapi.ProblemOf}, WriteError: httpapi.WriteError,
	}
	long := httpserver.Allowance{Timeout: time.Minute, Patience: time.Second}
	return &server{t, apptest.NewAPI(t, api.OpenAPI, maxBody, deps, func(e *echo.Echo) {
		httpapi.Register(e, attempt.NewService(repo, files), long, nil)
	}), files}
}

// onDatabase serves a new database.
func onDatabase(t *testing.T) *server {
	t.Helper()
	reg := prometheus.NewRegistry()
	db := apptest.Pool(t, sqldb.Settings{
		URL: dbtest.Postgres(t, postgres.Migrations()), MaxOpenConns: 8, Session: sqldb.PlannedOnce(),
		LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute,
	}, reg)
	m := metrics.New(reg)
	store := postgres.New(postgres.Options{
		Limits: groupcommit.Limits{
			DB: db, Slots: groupcommit.NewSlots(db, "iidy", time.Minute, groupcommit.Beside(postgres.Table)),
			LockTimeout: time.Minute, StatementTimeout: 2 * time.Minute, Registry: reg,
		},
		Metrics: m, MaxOpenConns: 8, BulkTimeout: time.Minute,
	})
	return newServer(t, store, 64<<20)
}

// header holds names and values of a request's header in turn.
type header []string

var (
	plain  = header{"Content-Type", ""}
	inJSON = header{"Content-Type", "application/json; charset=utf-8"}
)

func (h header) accept(value string) header { return append(header{"Accept", value}, h...) }

// do sends a request and checks the answer against the contract. Every answer ends in a line break, and has nosniff.
func (s *server) do(method, path, body string, h header) apptest.Answer {
	s.Helper()
	a := s.Do(method, path, body, h...)
	if a.Body != "" && !strings.HasSuffix(a.Body, "\n") {
		s.Errorf("%s %s: the answer does not end in a line break: %s", method, path, a)
	}
	if a.Header.Get("X-Content-Type-Options") != "nosniff" {
		s.Errorf("%s %s: the answer lacks nosniff: %v", method, path, a.Header)
	}
	return a
}

// want compares status and body, without its line break.
func (s *server) want(method, path, body string, h header, status int, want string) apptest.Answer {
	s.Helper()
	a := s.do(method, path, body, h)
	if a.Status != status || strings.TrimSuffix(a.Body, "\n") != want {
		s.Errorf("%s %s %.60q: %s, want %d %q", method, path, body, a, status, want)
	}
	return a
}

// refused sends a request for an answer in each format, and compares the errors.
func (s *server) refused(method, path, body string, h header, status int, code, field string) {
	s.Helper()
	asText := s.do(method, path, body, h.accept("text/plain"))
	asJSON := s.do(method, path, body, h.accept("application/json"))
	var doc struct{ Detail, Error, Type string }
	if err := json.Unmarshal([]byte(asJSON.Body), &doc); err != nil {
		s.Fatalf("%s %s: %s: %v", method, path, asJSON, err)
	}
	if asJSON.Status != status || asJSON.Code != code || asJSON.Field != field ||
		doc.Type != "about:blank" || doc.Error != doc.Detail {
		s.Errorf("%s %s %.60q: %s, want %d %s %q", method, path, body, asJSON, status, code, field)
	}
	kind := asText.Header.Get("Content-Type")
	if asText.Status != status || asText.Body != doc.Error+"\n" || kind != "text/plain; charset=utf-8" {
		s.Errorf("%s %s %.60q: as text %s, as JSON %q", method, path, body, asText, doc.Error)
	}
	for _, a := range []apptest.Answer{asJSON, asText} {
		if got := a.Header.Get("X-Error-Code"); got != code {
			s.Errorf("%s %s: X-Error-Code %q, want %s", method, path, got, code)
		}
	}
}
