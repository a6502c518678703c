package acceptance

import (
	"os/exec"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/lab/internal/tour"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// TestTours pastes the tour of each service's README into a shell, compares what is
// printed with the page, and runs `rowlock check` afterwards, on every engine that
// the service runs on.
func TestTours(t *testing.T) {
	t.Parallel()
	for _, s := range targets.All() {
		for _, engine := range s.Engines {
			t.Run(s.Name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				api := startAll(t, s, database(t, engine), nil)
				page, err := tour.Read("../..", s, api, api)
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.CommandContext(t.Context(), "sh", "-c", page.Script()).Output()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if err := page.Compare(string(out)); err != nil {
					t.Error(err)
				}

				if err := check(t, targets.Target{Service: s.Name, URL: api}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// check runs `rowlock check` on a service.
func check(t *testing.T, target targets.Target) error {
	t.Helper()
	tel, err := telemetry.New(t.Context(), telemetry.Config{Service: "rowlock", Output: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	return targets.Check(t.Context(), t.Output(), tel, []targets.Target{target})
}
