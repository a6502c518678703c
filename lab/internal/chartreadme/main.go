// Command chartreadme writes the tables of values in the README.md of the charts in its arguments, between two marks,
// from the comments of their values.yaml.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/chartvalues"
)

const (
	begin = "<!-- values: written by make generate -->\n"
	end   = "<!-- /values -->\n"
)

func main() {
	for _, chart := range os.Args[1:] {
		if err := write(chart); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "chartreadme: %s: %v\n", chart, err)
			os.Exit(1)
		}
	}
}

func write(chart string) error {
	values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	keys, err := chartvalues.Read(values)
	if err != nil {
		return err
	}
	path := filepath.Join(chart, "README.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return errors.New("README.md lacks the marks of the values")
	}
	if err := os.WriteFile(path, []byte(head+begin+table(keys)+end+tail), 0o644); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func table(keys []chartvalues.Key) string {
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
