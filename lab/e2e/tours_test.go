//go:build e2e

package e2e

import (
	"sync"

	"github.com/rowlock/rowlock/lab/internal/tour"
)

// withToken makes curl send the pod's token.
const withToken = `curl() { command curl --header "Authorization: Bearer $(cat /var/run/secrets/rowlock/token)" "$@"; }
`

// tours runs the tours of the services' READMEs at once in another pod, where the Services have names, with a token. It
// compares what they print with the pages where the database is new, because some tell ids.
func (s *story) tours(t *T, isNew bool) {
	t.Helper()
	var all sync.WaitGroup
	for _, row := range s.rows {
		all.Go(func() {
			page, err := tour.Read("../..", row, "http://rowlock-"+row.Name, "http://rowlock-"+row.Name+"-internal:8081")
			out := ""
			if err == nil {
				out, err = t.kubectl(t.Context(), "exec", "client", "--", "sh", "-c", withToken+page.Script())
			}
			if err == nil && isNew {
				err = page.Compare(out)
			}
			if err != nil {
				t.Errorf("%s: %v", row.Name, err)
			}
		})
	}
	all.Wait()
}
