package acceptance

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// TestCitusIsRefused: a service that runs on one primary alone ends on a Citus cluster before it asks the database.
func TestCitusIsRefused(t *testing.T) {
	t.Parallel()
	for _, service := range []string{targets.Events, targets.Payments, targets.Pyggpot} {
		run := exec.CommandContext(t.Context(), localtest.Binary(t, service), "serve")
		run.Env = []string{"DB_CLUSTER=citus", "DATABASE_URL=postgres://u:p@127.0.0.1:1/none"}
		out, err := run.CombinedOutput()
		if err == nil || !strings.Contains(string(out), service+" runs on a single primary only") {
			t.Errorf("%s: %v\n%s", service, err, out)
		}
	}
}
