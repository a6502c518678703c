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
	err := errors.Join(
		dashboard.Write(filepath.Join(chart, "dashboards")),
		rewrite(filepath.Join(chart, "rules", "rowlock.yaml"), names),
		rewrite(filepath.Join(chart, "values.schema.json"), enumerated),
		global(chart, service, "values.yaml", "\nglobal:\n", "\n\n"),
		global(chart, service, "values.schema.json", "\n    \"global\": {\n", "\n    }"),
		rewrite(filepath.Join(service, "values.schema.json"), unnamed),
		table(chart),
		table(service),
		rewrite(filepath.Join(chart, "..", "..", "k8s", "values.yaml"), listed),
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
		return fmt.Errorf("read: %w", err)
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

// names writes the names of all services into rules, wherever four names or more are listed as a|b|c|d.
func names(rules string) (string, error) {
	list := regexp.MustCompile(`[a-z]+(\|[a-z]+){3,}`)
	return list.ReplaceAllLiteralString(rules, strings.Join(targets.Names(), "|")), nil
}

// global copies the global values of the chart, or their schema, into the file of that name of the service's chart,
// which is released alone too. They stand between the two marks.
func global(chart, service, file, begin, end string) error {
	text, err := os.ReadFile(filepath.Join(chart, file))
	if err != nil {
		return fmt.Errorf("read: %w", err)
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

// unnamed replaces the names of all services in a schema by what any name is, for the chart that knows none.
func unnamed(schema string) (string, error) {
	list := regexp.MustCompile(`"enum": (\[\s*"` + strings.Join(targets.Names(), `",\s*"`) + `"\s*\])`)
	return list.ReplaceAllLiteralString(schema, `"pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"`), nil
}

// enumerated writes the names of all services into the schema of a rule's services.
func enumerated(schema string) (string, error) {
	list := regexp.MustCompile(`("services": \{[^]]*?"enum": \[\n)(\s*)[^]]*?(\n\s*\])`)
	if !list.MatchString(schema) {
		return "", errors.New("it has no list of services")
	}
	return list.ReplaceAllString(schema, `${1}${2}"`+strings.Join(targets.Names(), "\",\n${2}\"")+`"${3}`), nil
}

// listed writes the names of all services into the rules of values.
func listed(values string) (string, error) {
	list := regexp.MustCompile(`services: \[[^]]*\]`)
	return list.ReplaceAllLiteralString(values, "services: ["+strings.Join(targets.Names(), ", ")+"]"), nil
}

// rewrite changes the text of a file.
func rewrite(file string, change func(string) (string, error)) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	text, err := change(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
