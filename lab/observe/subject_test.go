package observe

import (
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// subject holds what the tests know of one service. The service's file registers it.
type subject struct {
	service string
	// environ are variables of its processes in TestObserved, in addition to timeouts.
	environ map[string]string
	// story are requests of the main paths and of every kind of a client's mistake. All of them carry marks.
	story []step
	// down are requests that are answered 503 while the database is down.
	down []request
	// last is the last statement of its rowlock check.
	last string
	// work is the trace of a batch of its workers; empty without workers.
	work string
	// secrets are texts that stand in no span and in no log line.
	secrets []string
}

// registered holds the subjects by service; their files fill it.
var registered = map[string]subject{}

// register adds a subject. Its result has no meaning: it lets a file register at package level.
func register(s subject) bool {
	registered[s.service] = s
	return true
}

// subjects returns the subject of each service.
func subjects(t *testing.T) (list []subject) {
	t.Helper()
	for _, name := range targets.Names() {
		s, ok := registered[name]
		if !ok {
			t.Fatalf("no file registers %s", name)
		}
		list = append(list, s)
	}
	return list
}
