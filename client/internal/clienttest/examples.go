package clienttest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package whose examples call a service. variable holds the
// URL of a service with a new database. Without it Main skips the examples and says
// so; lab/acceptance runs them.
func Main(m *testing.M, variable string) int {
	if os.Getenv(variable) == "" {
		_, _ = fmt.Fprintf(os.Stderr, "The examples are skipped, because %s is not set.\n", variable)
		flag.Parse()
		skip := "^Example"
		if given := flag.Lookup("test.skip").Value.String(); given != "" {
			skip += "|" + given
		}
		if err := flag.Set("test.skip", skip); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
