// Command chartfiles writes what is generated of the chart in its argument: the dashboards, the tables of values in
// VALUES.md, the service's copy of the global values and of their schema, and the services' names in the rules, in the
// schema and in k8s/values.yaml.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/chartvalues"
	"github.com/rowlock/rowlock/lab/internal/dashboard"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

func main() {
	chart := os.Args[1]
	service := filepath.Join(chart, "charts", "service")
	names := targets.Names()
	err := errors.Join(
		dashboard.Write(filepath.Join(chart, "dashboards")),
		// Wherever four names or more are listed.
		replace(filepath.Join(chart, "rules", "rowlock.yaml"), `[a-z]+(\|[a-z]+){3,}`, strings.Join(names, "|")),
		// The services of a rule.
		replace(filepath.Join(chart, "values.schema.json"), `("services": \{[^]]*?"enum": \[\n)(\s*)[^]]*?(\n\s*\])`,
			`${1}${2}"`+strings.Join(names, "\",\n${2}\"")+`"${3}`),
		global(chart, service, "values.yaml", "\nglobal:\n", "\n\n"),
		global(chart, service, "values.schema.json", "\n    \"global\": {\n", "\n    }"),
		// The service's own chart takes any name.
		replace(filepath.Join(service, "values.schema.json"), `"enum": (\[\s*"`+strings.Join(names, `",\s*"`)+`"\s*\])`,
			`"pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$$"`),
		table(chart),
		table(service),
		replace(filepath.Join(chart, "..", "..", "k8s", "values.yaml"), `services: \[[^]]*\]`,
			"services: ["+strings.Join(names, ", ")+"]"),
	)
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "chartfiles: %v\n", err)
		os.Exit(1)
	}
}

const (
	begin = "<!-- values: written by make generate -->\n"
	end   = "<!-- /values -->\n"
)

// table writes the table of a chart's values into its VALUES.md, between two marks, from the comments of values.yaml.
func table(chart string) error {
	values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	keys, err := chartvalues.Read(values)
	if err != nil {
		return fmt.Errorf("%s: %w", chart, err)
	}
	return rewrite(filepath.Join(chart, "VALUES.md"), func(page string) (string, error) {
		head, rest, found := strings.Cut(page, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !found || !closed {
			return "", errors.New("it lacks the marks of the values")
		}
		return head + begin + rows(keys) + end + tail, nil
	})
}

func rows(keys []chartvalues.Key) string {
	var b strings.Builder
	b.WriteString("| value | default | |\n| --- | --- | --- |\n")
	for _, k := range keys {
		value := ""
		if k.Default != "" {
			value = "`" + k.Default + "`"
		}
		_, _ = fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Path, value, k.Text)
	}
	return b.String()
}

// global copies the global values of the chart, or their schema, into the file of that name of the service's chart,
// which is released alone too. They stand between the two marks.
func global(chart, service, file, begin, end string) error {
	text, err := os.ReadFile(filepath.Join(chart, file))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), begin)
	block, _, found := strings.Cut(rest, end)
	if !found {
		return fmt.Errorf("%s has no global values", file)
	}
	return rewrite(filepath.Join(service, file), func(old string) (string, error) {
		head, rest, found := strings.Cut(old, begin)
		if !found {
			return "", errors.New("it has no global values")
		}
		_, tail, _ := strings.Cut(rest, end)
		return strings.TrimRight(head+begin+block+end+tail, "\n") + "\n", nil
	})
}

// replace replaces whatever matches the pattern in a file.
func replace(file, pattern, with string) error {
	return rewrite(file, func(old string) (string, error) {
		found := regexp.MustCompile(pattern)
		if !found.MatchString(old) {
			return "", fmt.Errorf("nothing matches %s", pattern)
		}
		return found.ReplaceAllString(old, with), nil
	})
}

// rewrite changes the text of a file.
func rewrite(file string, change func(string) (string, error)) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := change(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
