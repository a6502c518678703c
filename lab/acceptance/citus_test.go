package acceptance

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// TestCitusIsRefused: every command of a service that runs on one primary alone ends on a Citus cluster before it asks
// the database, and says what to do instead.
func TestCitusIsRefused(t *testing.T) {
	t.Parallel()
	for service, commands := range map[string][]string{
		targets.Events:   {"serve", "work", "migrate"},
		targets.Payments: {"serve", "migrate"},
		targets.Pyggpot:  {"serve", "migrate"},
	} {
		want := "DB_CLUSTER=citus: " + service + " runs on a single primary only; leave DB_CLUSTER unset and give " +
			service + " a separate primary (docs/scaling.md)"
		for _, command := range commands {
			t.Run(service+"/"+command, func(t *testing.T) {
				t.Parallel()
				run := exec.CommandContext(t.Context(), localtest.Binary(t, service), command)
				run.Env = []string{"DB_CLUSTER=citus", "DATABASE_URL=postgres://u:p@127.0.0.1:1/none"}
				out, err := run.CombinedOutput()
				if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
					t.Errorf("it ends with %v, want exit status 1", err)
				}
				if !strings.Contains(string(out), want) {
					t.Errorf("it says\n%s\nwant\n%s", out, want)
				}
			})
		}
	}
}
