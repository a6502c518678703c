package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/prove"
)

// A broken promise has an exit status of its own, which a run that fails by itself has not. What
// is left behind stands in the last line of either, and does not hide what was found.
func TestConclude(t *testing.T) {
	t.Parallel()
	report := func(holds bool, broken string) *prove.Report {
		checks := []prove.Check{{Name: "linearizable", OK: holds}}
		return &prove.Report{
			Seed: 4, Broken: broken,
			Windows: []*prove.WindowResult{{Services: []prove.ServiceResult{{Service: "counts", Checks: checks}}}},
		}
	}
	lost := errors.New("the server is gone")
	left := errors.New("may still be on db:5432: rowlock_prove_a")
	for name, c := range map[string]struct {
		report *prove.Report
		err    error
		status int
	}{
		"holds":                    {report(true, ""), nil, exitOK},
		"broken promise":           {report(false, ""), nil, exitBroken},
		"lost server":              {report(true, lost.Error()), lost, exitError},
		"lost server, and promise": {report(false, lost.Error()), lost, exitBroken},
		"none was run":             {&prove.Report{}, nil, exitError},
		"left behind":              {report(true, ""), left, exitError},
		"left behind, and promise": {report(false, ""), left, exitBroken},
		"all of it":                {report(false, lost.Error()), errors.Join(lost, left), exitBroken},
	} {
		var said strings.Builder
		p := process{stdout: io.Discard, stderr: &said}
		if status := exitCode(p, conclude(c.report, c.err, "", p)); status != c.status {
			t.Errorf("%s: status %d, want %d", name, status, c.status)
		}
		if errors.Is(c.err, left) && !strings.HasSuffix(said.String(), left.Error()+"\n") {
			t.Errorf("%s: the last line does not name what is left:\n%s", name, said.String())
		}
	}
}
