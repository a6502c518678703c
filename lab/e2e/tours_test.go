//go:build e2e

package e2e

import "github.com/rowlock/rowlock/lab/internal/tour"

// tours runs the tour of each service's README in another pod, where the Service
// has a name, and compares what it prints with the page.
func (s *story) tours(t *T) {
	for _, row := range s.rows {
		page, err := tour.Read("../..", row, "http://rowlock-"+row.Name, "http://rowlock-"+row.Name+"-internal:8081")
		if err != nil {
			t.Fatal(err)
		}
		if err := page.Compare(must(t, "exec", "client", "--", "sh", "-c", page.Script())); err != nil {
			t.Errorf("%s: %v", row.Name, err)
		}
	}
}
