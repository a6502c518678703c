package prove

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

type ops = []history.Op

// Short names of the outcomes.
const (
	done    = targets.OK
	refused = targets.Refused
	lost    = targets.Unknown
	undone  = targets.NotApplied
)

// op is a shorthand: times are in milliseconds.
func op(call, ret int, outcome targets.Outcome, input, output any) history.Op {
	return history.Op{
		Key: "k", Outcome: outcome, Input: input, Output: output,
		Call: time.Duration(call) * time.Millisecond, Return: time.Duration(ret) * time.Millisecond,
	}
}

func wantLegal(t *testing.T, name string, model porcupine.Model, ops ops, legal bool) {
	t.Helper()
	ok, detail, picture := history.Check(model, ops, t.TempDir())
	if ok != legal || !strings.HasPrefix(detail, "1 keys") || (picture != "") == legal {
		t.Errorf("%s: %s, want %t", name, detail, legal)
	}
}
