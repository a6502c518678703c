// Package tour reads the tour of a service's README, a shell script and what it
// prints, and compares what was printed with the page.
package tour

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// Tour holds the tour of a page.
type Tour struct{ script, answers string }

// Read reads the tour of a service below root, the repository's folder. The script
// calls url instead of the address on the page, and internalURL for the paths of
// the service's internal API.
func Read(root string, s targets.Service, url, internalURL string) (Tour, error) {
	file := filepath.Join(root, "services", s.Name, "README.md")
	page, err := os.ReadFile(file)
	if err != nil {
		return Tour{}, fmt.Errorf("read a tour: %w", err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Tour\n")
	section, _, _ = strings.Cut(section, "\n## ")
	t := Tour{Block(section, "sh"), Block(section, "text")}
	here := fmt.Sprintf("http://127.0.0.1:%d", s.Port)
	if t.answers == "" || !strings.Contains(t.script, here) {
		return Tour{}, fmt.Errorf("%s has no tour at %s", file, here)
	}
	if s.InternalPath != "" {
		t.script = strings.ReplaceAll(t.script, here+s.InternalPath, internalURL+s.InternalPath)
	}
	t.script = strings.ReplaceAll(t.script, here, url)
	return t, nil
}

// Script returns the commands for a shell. curl shows no progress.
func (t Tour) Script() string {
	return strings.ReplaceAll(t.script, "curl ", "curl --no-progress-meter ")
}

// Compare returns an error when what the script printed is not what the page shows.
// Ids, times and random words differ from run to run, and an ellipsis stands for
// what the page leaves out.
func (t Tour) Compare(printed string) error {
	shown := t.shown(strings.ReplaceAll(printed, "\r", ""))
	if !pattern(t.answers).MatchString(shown) {
		return fmt.Errorf("the tour prints\n%s\nREADME\n%s", shown, t.answers)
	}
	return nil
}

// shown leaves out the status lines and headers that the page does not show.
func (t Tour) shown(printed string) string {
	header := regexp.MustCompile(`^(HTTP/|[A-Z][A-Za-z-]+: )`)
	var kept strings.Builder
	for line := range strings.Lines(printed) {
		if name := header.FindString(line); name == "" || strings.Contains(t.answers, name) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

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

// Block returns the first fenced block of a language, and "" when there is none.
func Block(section, language string) string {
	if all := Blocks(section, language); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Blocks returns the fenced blocks of a language in their order.
func Blocks(section, language string) (all []string) {
	for {
		_, rest, found := strings.Cut(section, "\n```"+language+"\n")
		if !found {
			return all
		}
		text, after, _ := strings.Cut(rest, "\n```")
		all, section = append(all, text), after
	}
}
