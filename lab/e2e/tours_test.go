//go:build e2e

package e2e

import (
	"github.com/rowlock/rowlock/lab/internal/tour"
)

// withToken makes curl send the pod's token.
const withToken = `curl() { command curl --header "Authorization: Bearer $(cat /var/run/secrets/rowlock/token)" "$@"; }
`

// tours runs the tours of the services' READMEs in another pod, where the Services have names, with a token. It
// compares what they print with the pages where the database is new, because some tell ids.
func (s *story) tours(t *T, isNew bool) {
	t.Helper()
	for _, row := range s.rows {
		page, err := tour.Read("../..", row, "http://rowlock-"+row.Name, "http://rowlock-"+row.Name+"-internal:8081")
		if err != nil {
			t.Fatal(err)
		}
		out := must(t, "exec", "client", "--", "sh", "-c", withToken+page.Script())
		if err := page.Compare(out); err != nil && isNew {
			t.Errorf("%s: %v", row.Name, err)
		}
	}
}
