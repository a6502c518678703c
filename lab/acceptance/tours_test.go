package acceptance

import (
	"os/exec"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/lab/internal/tour"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// TestTours pastes the tour of each service's README into a shell and compares
// what is printed with the page.
func TestTours(t *testing.T) {
	t.Parallel()
	for _, s := range services.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			url := urls(start(t, s.Name, 2, dsn, nil))[0]
			if s.Worker != "" {
				startCommand(t, s.Name, s.Worker, 1, dsn, nil)
			}
			page, err := tour.Read("../..", s, url, url)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "sh", "-c", page.Script()).Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := page.Compare(string(out)); err != nil {
				t.Error(err)
			}
		})
	}
}
