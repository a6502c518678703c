package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// TestTours pastes the tour of each service's README into a shell and compares
// what is printed with the page.
func TestTours(t *testing.T) {
	t.Parallel()
	for _, s := range services.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile("../../services/" + s.Name + "/README.md")
			if err != nil {
				t.Fatal(err)
			}
			_, tour, _ := strings.Cut(string(page), "\n## Tour\n")
			commands, want := block(t, tour, "sh"), block(t, tour, "text")
			address := fmt.Sprintf("http://127.0.0.1:%d", s.Port)
			if !strings.Contains(commands, address) {
				t.Fatalf("README has no tour at %s", address)
			}
			dsn := dbtest.Empty(t)
			url := urls(start(t, s.Name, 2, dsn, nil))[0]
			if s.Worker != "" {
				startCommand(t, s.Name, s.Worker, 1, dsn, nil)
			}
			// Without the progress that curl shows when it does not write to a terminal.
			script := strings.ReplaceAll(strings.ReplaceAll(commands, address, url), "curl ", "curl --no-progress-meter ")
			out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := shownHeaders(string(out), want); !pattern(want).MatchString(got) {
				t.Errorf("the tour prints\n%s\nREADME\n%s", got, want)
			}
		})
	}
}

// block returns the first fenced block of a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, rest, _ := strings.Cut(page, "\n```"+language+"\n")
	text, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatalf("the tour has no %s block", language)
	}
	return text
}

// shownHeaders leaves out the status lines and headers that the page does not show.
func shownHeaders(printed, page string) string {
	var kept []string
	for line := range strings.Lines(printed) {
		name := regexp.MustCompile(`^(HTTP/|[A-Z][A-Za-z-]+: )`).FindString(line)
		if name == "" || strings.Contains(page, name) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// pattern returns an expression for what the page promises. Ids, times and random
// words differ from run to run, and an ellipsis stands for what the page leaves out.
func pattern(page string) *regexp.Regexp {
	expression := regexp.QuoteMeta(page)
	for _, replace := range [][2]string{
		{`"id":"[0-9]+\\\.\\\.\\\."`, `"id":"[-0-9a-f]+"`},
		{`"\d{4}-\d\d-\d\dT[0-9:\\.]+Z"`, `"[-0-9T:.]+Z"`},
		{`"value":"[a-z]+"`, `"value":"[a-z]+"`},
		{`,? ?\\\.\\\.\\\.( [a-z, ]*)?(\\\.\\\.\\\. ?)?`, `.*`},
		{`\n`, `\s*`},
	} {
		expression = regexp.MustCompile(replace[0]).ReplaceAllLiteralString(expression, replace[1])
	}
	return regexp.MustCompile(`^\s*` + expression + `\s*$`)
}
