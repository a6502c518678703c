package observe

import (
	"maps"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// subject holds what the tests know of one service. The service's file registers it.
type subject struct {
	service string
	// environ are variables of its processes in TestObserved, in addition to timeouts.
	environ map[string]string
	// prepare is sent before the load, whose n-th request is next(n); perSecond of them begin in a second.
	prepare   []request
	next      func(n int) request
	perSecond int

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

// subjects returns those registered, in the order of their names.
func subjects() (list []subject) {
	for _, name := range slices.Sorted(maps.Keys(registered)) {
		list = append(list, registered[name])
	}
	return list
}

func TestEveryServiceIsObserved(t *testing.T) {
	t.Parallel()
	for _, name := range targets.Names() {
		if _, ok := registered[name]; !ok {
			t.Errorf("no file registers %s", name)
		}
	}
}
