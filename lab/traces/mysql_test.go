package traces

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/collector"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// The statements of events on MySQL, whose driver puts values into the text below the spans.
const (
	treeMySQLEvent = `POST /events
  events.create
    batch events_add
      BEGIN
      SELECT status
      UPDATE status
      INSERT events
      COMMIT
`
	treeMySQLAsync = `POST /events/async
  events.enqueue
    batch events_add
      BEGIN
      SELECT status
      UPDATE status
      INSERT events
      COMMIT
`
	treeMySQLWork = `events.work
  BEGIN
  SELECT events
  UPDATE events
  COMMIT
`
)

// TestEventsOnMySQL: the same tree as on PostgreSQL, of other statements, and no value in any.
func TestEventsOnMySQL(t *testing.T) {
	t.Parallel()
	dsn := dbtest.EmptyMariaDB(t)
	spans := collector.Start(t)
	serve := run(t, "events-serve", dsn, spans.Environ(), nil)
	c := client(t)
	var worked string
	for _, s := range []step{
		{"events-serve", request{http.MethodPost, "/events", mark, nil}, 201, treeMySQLEvent},
		{"events-serve", request{http.MethodPost, "/events/async", mark, nil}, 202, treeMySQLAsync},
	} {
		a := serve.send(t, c, s.request)
		if tree := collector.Tree(traceOf(t, spans, a.trace), caller); a.status != s.status || tree != s.tree {
			t.Errorf("%s answered %d, the trace is\n%swant %d and\n%s", s.request.path, a.status, tree, s.status, s.tree)
		}
	}
	run(t, "events-work", dsn, spans.Environ(), nil)
	eventually(t, "the trace of the worked batch", func() bool {
		for _, s := range spans.Spans() {
			if s.Name == "events.work" {
				worked = s.Trace
			}
		}
		return worked != ""
	})
	if tree := collector.Tree(spans.Trace(worked), caller); tree != treeMySQLWork {
		t.Errorf("the worker's trace is\n%swant\n%s", tree, treeMySQLWork)
	}
	for _, s := range spans.Spans() {
		if system := s.Attributes["db.system.name"]; system != "" && system != "mysql" {
			t.Errorf("%s is of %s", s.Name, system)
		}
		text := s.Attributes["db.query.text"]
		if writes := strings.HasPrefix(text, "UPDATE") || strings.HasPrefix(text, "INSERT"); writes && !strings.Contains(text, "?") {
			t.Errorf("%s shows values: %s", s.Name, text)
		}
		if s.Failed {
			t.Errorf("failed: %+v", s)
		}
	}
	if spans.Holds(mark) {
		t.Error("a body was exported")
	}
}
