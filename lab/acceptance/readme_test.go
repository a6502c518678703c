package acceptance

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/dbtest"
)

// block returns the first fenced block of a language after a heading.
func block(t *testing.T, page, heading, language string) []string {
	t.Helper()
	_, section, _ := strings.Cut(page, "\n"+heading+"\n")
	_, rest, _ := strings.Cut(section, "\n```"+language+"\n")
	text, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatalf("there is no %s block under %q", language, heading)
	}
	return strings.Split(text, "\n")
}

// The tour of a service's README: every command as it stands there, and its
// answer, but for the time of day and what an ellipsis leaves out.
func TestTourOfTheReadme(t *testing.T) {
	t.Parallel()
	tourOf(t, "counts", "127.0.0.1:8083", addrs(counts(t, 2, dbtest.Empty(t), nil))[0])
}

func TestPyggpotTour(t *testing.T) {
	t.Parallel()
	tourOf(t, "pyggpot", "127.0.0.1:8081", addrs(pyggpot(t, 2, dbtest.Empty(t), nil))[0])
}

func tourOf(t *testing.T, service, address, addr string) {
	t.Helper()
	page, err := os.ReadFile("../../services/" + service + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, answers := block(t, string(page), "## Tour", "sh"), block(t, string(page), "## Tour", "text")
	if len(commands) != len(answers) || len(commands) < 5 {
		t.Fatalf("%d commands and %d answers", len(commands), len(answers))
	}
	clock := regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"`)
	for i, command := range commands {
		command = strings.ReplaceAll(command, address, addr)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		got := clock.ReplaceAllString(strings.TrimSuffix(string(out), "\n"), `"TIME"`)
		want, shortened := strings.CutSuffix(clock.ReplaceAllString(answers[i], `"TIME"`), ` ...}`)
		if got != want && (!shortened || !strings.HasPrefix(got, want)) {
			t.Errorf("%s\nanswers %s\nREADME %s", command, got, answers[i])
		}
	}
}
