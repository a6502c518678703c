package eventtest_test

import (
	"testing"

	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	eventtest.Exercise(t, func(*testing.T) (one, other eventtest.Store) {
		m := new(eventtest.Memory)
		return m, m
	})
}
