//go:build e2e

package e2e

import (
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/lab/internal/tour"
)

// tours runs the services' tours on the new database that some of them need. That of
// payments, which may be of an earlier revision yet, comes after the upgrade.
func (s *story) tours(t *T) {
	for _, row := range s.rows {
		if row.Name != services.Payments {
			tourOf(t, row)
		}
	}
}

// withToken makes curl send the pod's token.
const withToken = `curl() { command curl --header "Authorization: Bearer $(cat /var/run/secrets/rowlock/token)" "$@"; }
`

// tourOf runs the tour of a service's README in another pod, where the Service has a
// name, with a token, and compares what it prints with the page.
func tourOf(t *T, row services.Service) {
	t.Helper()
	page, err := tour.Read("../..", row, "http://rowlock-"+row.Name, "http://rowlock-"+row.Name+"-internal:8081")
	if err != nil {
		t.Fatal(err)
	}
	if err := page.Compare(must(t, "exec", "client", "--", "sh", "-c", withToken+page.Script())); err != nil {
		t.Errorf("%s: %v", row.Name, err)
	}
}
