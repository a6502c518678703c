// Command write writes the dashboards as JSON into the folder of its argument, and removes the others.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rowlock/rowlock/lab/internal/dashboard"
)

func main() {
	if len(os.Args) != 2 {
		_, _ = fmt.Fprintln(os.Stderr, "usage: write FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "write: %v\n", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	old, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return fmt.Errorf("look for dashboards: %w", err)
	}
	for _, file := range old {
		err = errors.Join(err, os.Remove(file))
	}
	for _, d := range dashboard.All() {
		text, failed := d.JSON()
		if failed == nil {
			failed = os.WriteFile(filepath.Join(folder, d.Name+".json"), text, 0o644)
		}
		err = errors.Join(err, failed)
	}
	return err
}
