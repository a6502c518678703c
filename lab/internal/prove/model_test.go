package prove

import (
	"context"
	"slices"
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

// Results of a check.
const (
	holds = "holds"
	fails = "fails"
)

// resolvedSince is the metric of a service that has resolved seven answers.
func resolvedSince(context.Context, string) (sum, most float64) { return 7, 7 }

// wantOutcomes demands the results of check outcomes, and that four answers were resolved in the window.
func wantOutcomes(t *testing.T, name string, f *findings, want ...string) {
	t.Helper()
	var got []string
	for _, c := range f.checks {
		if c.Name != outcomes {
			t.Errorf("%s: check %s", name, c.Name)
		}
		result := fails
		if c.OK {
			result = holds
		}
		got = append(got, result)
	}
	if !slices.Equal(got, want) || f.signs[resolved] != 4 {
		t.Errorf("%s: %v, want %v; %d answers resolved", name, got, want, f.signs[resolved])
	}
}
