package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// TestCallers has the clients of all services call them with and without a token. Each service answers as the policy
// says, and its client returns that code.
func TestCallers(t *testing.T) {
	t.Parallel()
	issuer := authtest.New(t)
	policy := issuer.Environ(t, fmt.Sprintf(
		"rules: [{subjects: [checkout], services: [%s], allow: [read, change, administer]}]",
		strings.Join(targets.Names(), ", ")))
	var all []targets.Target
	for _, s := range targets.All() {
		all = append(all, targets.Target{Service: s.Name, URL: startAll(t, s, dbtest.Empty(t), policy)})
	}

	for subject, want := range map[string]string{"stock": "FORBIDDEN", "": "UNAUTHENTICATED", "checkout": ""} {
		file := ""
		if subject != "" {
			file = filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(issuer.Token(subject)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, target := range all {
			target.TokenFile = file
			if err := check(t, target); (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s answers %q with %v, want %q", target.Service, subject, err, want)
			}
		}
	}
}
