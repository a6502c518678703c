package acceptance

import (
	"os/exec"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/lab/internal/tour"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// root is the repository's folder.
const root = "../.."

// TestTours takes the tour of each service's README, and runs `rowlock check` afterwards, on every engine that the
// service runs on.
func TestTours(t *testing.T) {
	t.Parallel()
	for _, s := range targets.All() {
		for _, engine := range s.Engines {
			t.Run(s.Name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				api := startAll(t, s, database(t, engine), nil)
				takeTour(t, s, api)

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
	found, err := targets.Check(t.Context(), tel, target)
	t.Log(found)
	return err
}

// takeTour pastes the tour of a service's README into a shell, with the address of its API, and compares what is
// printed with the page.
func takeTour(t *testing.T, s targets.Service, api string) {
	t.Helper()
	page, err := tour.Read(root, s, api, api)
	if err != nil {
		t.Fatal(err)
	}
	if err := page.Compare(shell(t, page.Script())); err != nil {
		t.Error(err)
	}
}

// shell returns what a script prints.
func shell(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
