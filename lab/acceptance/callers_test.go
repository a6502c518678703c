package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// TestCallers has a program that knows nothing of this repository but the client module call all services, which ask
// for a token. Each of them answers as the policy says, and the program is told by the same codes.
func TestCallers(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "outside")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../tools/testdata/outside/main.go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	issuer := authtest.New(t)
	tokens := issuer.Environ(t, fmt.Sprintf("rules: [{subjects: [checkout], services: [%s], allow: [change, read]}]",
		strings.Join(targets.Names(), ", ")))

	var addresses []string
	for _, s := range targets.All() {
		addresses = append(addresses, strings.ToUpper(s.Name)+"_URL="+startAll(t, s, dbtest.Empty(t), tokens))
	}

	for subject, want := range map[string]string{"checkout": "<nil>", "stock": "FORBIDDEN", "": "UNAUTHENTICATED"} {
		t.Run("as "+subject, func(t *testing.T) {
			t.Parallel()
			call := exec.CommandContext(t.Context(), program)
			call.Env = addresses
			if subject != "" {
				path := filepath.Join(t.TempDir(), "token")
				if err := os.WriteFile(path, []byte(issuer.Token(subject)), 0o600); err != nil {
					t.Fatal(err)
				}
				call.Env = append(call.Environ(), "TOKEN_FILE="+path)
			}
			out, err := call.CombinedOutput()
			if n := strings.Count(string(out), want); n != len(addresses) || (err == nil) != (subject == "checkout") {
				t.Errorf("%d of %d services answer %s: %v\n%s", n, len(addresses), want, err, out)
			}
		})
	}
}
