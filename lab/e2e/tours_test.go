//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// The tour of each service's README, run in another pod, where the Service has a name. What it prints is what the README shows, but for
// times, ids, and what an ellipsis leaves out.
func (s *story) tours(t *T) {
	for _, row := range s.rows {
		page, err := os.ReadFile("../../services/" + row.name + "/README.md")
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(page), "\n## Tour\n")
		section, _, _ = strings.Cut(section, "\n## ")
		commands, answers := block(section, "sh"), block(section, "text")
		if commands == "" || answers == "" {
			t.Fatalf("%s: the README has no tour", row.name)
		}
		here := "http://127.0.0.1:" + row.port
		script := commands
		if row.internal != "" {
			script = strings.ReplaceAll(script, here+row.internal, fmt.Sprintf("http://rowlock-%s-internal:8081%s", row.name, row.internal))
		}
		script = strings.ReplaceAll(script, here, "http://rowlock-"+row.name)
		if strings.Contains(script, "127.0.0.1") || !strings.Contains(script, "curl") {
			t.Fatalf("%s: the tour looks elsewhere:\n%s", row.name, script)
		}
		out := must(t, "exec", "client", "--", "sh", "-c", script)
		rest := strings.ReplaceAll(out, "\r", "")
		for line := range strings.SplitSeq(answers, "\n") {
			if strings.TrimSpace(line) == "" {
				continue
			}
			at := pattern(line).FindStringIndex(rest)
			if at == nil {
				t.Errorf("%s: the tour's answers lack\n%s\nthey were\n%s", row.name, line, out)
				break
			}
			rest = rest[at[1]:]
		}
	}
}

// block is the first fenced block of a language.
func block(section, language string) string {
	_, rest, _ := strings.Cut(section, "\n```"+language+"\n")
	text, _, _ := strings.Cut(rest, "\n```")
	return text
}

// pattern matches a line of a README's answers.
func pattern(line string) *regexp.Regexp {
	text := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`).ReplaceAllString(line, "TIME")
	text = regexp.MustCompile(`"[0-9a-f]{4}\.{3}"`).ReplaceAllString(text, "IDENT")
	text = regexp.MustCompile(`"value":"[^"]*"`).ReplaceAllString(text, "WORD") // events draws words
	text = regexp.MustCompile(`\s*\.{3}[ a-z,]*`).ReplaceAllString(text, "REST")
	text = regexp.QuoteMeta(text)
	const quoted = `"[^"]*"`
	return regexp.MustCompile(strings.NewReplacer("WORD", `"value":`+quoted, "TIME", quoted, "IDENT", quoted, "REST", `.*?`).Replace(text))
}
