package app_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/services/counts/internal/app"
)

// The README shows what --help prints, to the letter.
func TestReadmeShowsTheConfiguration(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := config.Usage(&table, new(app.Config)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), table.String()) {
		t.Errorf("README.md lacks this table:\n%s", table.String())
	}
}
