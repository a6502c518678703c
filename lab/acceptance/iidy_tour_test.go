package acceptance

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/dbtest"
)

// The tour in the service's README, pasted into a shell, prints what that page says.
func TestIidyTour(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../services/iidy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, want := block(t, string(page), "## Tour", "sh"), block(t, string(page), "## Tour", "text")
	const address = "127.0.0.1:8084"
	script := strings.Join(commands, "\n")
	if !strings.Contains(script, address) || len(commands) < 20 {
		t.Fatalf("README has no tour at %s", address)
	}
	addr := addrs(iidy(t, 2, dbtest.Empty(t), nil))[0]
	script = strings.ReplaceAll(strings.ReplaceAll(script, address, addr), "curl ", "curl -s ")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	for i := range max(len(got), len(want)) {
		line, promised := "nothing", "nothing"
		if i < len(got) {
			line = got[i]
		}
		if i < len(want) {
			promised = want[i]
		}
		begin, shortened := strings.CutSuffix(promised, ` ...}`)
		if line != promised && (!shortened || !strings.HasPrefix(line, begin)) {
			t.Errorf("line %d is %s\nREADME    %s", i+1, line, promised)
		}
	}
}
