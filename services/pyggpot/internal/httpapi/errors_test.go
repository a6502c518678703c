package httpapi

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// A page that has pots and begins too far behind the first is the client's fault, in Connect's own code.
func TestPageOutOfRange(t *testing.T) {
	t.Parallel()
	e := connectError(ProblemOf(pot.ErrOutOfRange), "")
	if e.Code() != connect.CodeOutOfRange || len(e.Details()) != 2 || e.Message() == "" {
		t.Errorf("got %v with %d details, want out_of_range with its reason and field", e, len(e.Details()))
	}
}
