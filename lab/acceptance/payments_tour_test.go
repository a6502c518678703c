package acceptance

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// The tour in the service's README, pasted into a shell, ends as that page says.
func TestPaymentsTour(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../services/payments/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Tour\n")
	_, script, found := strings.Cut(section, "\n```sh\n")
	script, _, _ = strings.Cut(script, "\n```\n")
	const address = "http://127.0.0.1:8082"
	if !found || !strings.Contains(script, address) {
		t.Fatalf("README has no tour at %s", address)
	}
	set := payments(t, 1, localtest.Binary(t, "payments"), dbtest.Empty(t), nil)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, address, "http://"+addrs(set)[0])).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := regexp.MustCompile(`(?m)^HTTP/1.1 \d+|Idempotent-Replayed: true|"code":"\w+"|"status":"\w+"|"decline_code":"\w+"`).
		FindAllString(string(out), -1)
	want := []string{
		"HTTP/1.1 201", `"status":"SUCCEEDED"`,
		"HTTP/1.1 201", "Idempotent-Replayed: true", `"status":"SUCCEEDED"`,
		"HTTP/1.1 409", `"code":"IDEMPOTENCY_KEY_CONFLICT"`,
		"HTTP/1.1 201", `"status":"DECLINED"`, `"decline_code":"card_declined"`,
		`"status":"DECLINED"`, `"decline_code":"card_declined"`, `"status":"SUCCEEDED"`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the tour shows %q, want %q:\n%s", seen, want, out)
	}
}
