package acceptance

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// TestClientExamples runs the examples of each package of the client module against a replica, with a worker where
// the service has one, on a new database. client/internal/clienttest leaves them out elsewhere.
func TestClientExamples(t *testing.T) {
	t.Parallel()
	ran := regexp.MustCompile(`(?m)^--- PASS: Example`)
	for _, s := range targets.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			api := startAll(t, s, dbtest.Empty(t), nil)
			cmd := exec.CommandContext(t.Context(), "go", "test", "-v", "-count=1", "-vet=off", "-run=^Example", "./"+s.Name)
			cmd.Dir = "../../client"
			cmd.Env = append(cmd.Environ(), strings.ToUpper(s.Name)+"_URL="+api)
			out, err := cmd.CombinedOutput()
			if err != nil || !ran.Match(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
