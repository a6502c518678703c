// Command rules writes the names of all services into the selectors of a file of Prometheus' rules, wherever four names
// or more are listed as a|b|c|d.
package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/services"
)

func main() {
	if len(os.Args) != 2 {
		_, _ = fmt.Fprintln(os.Stderr, "usage: rules FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "rules: %v\n", err)
		os.Exit(1)
	}
}

func write(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	list := regexp.MustCompile(`[a-z]+(\|[a-z]+){3,}`)
	text = list.ReplaceAllLiteral(text, []byte(strings.Join(services.Names(), "|")))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
