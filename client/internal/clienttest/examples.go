package clienttest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package whose examples call a service. variable holds
// the address of one with a new database. Without it the examples are left out,
// and Main says so; lab/acceptance runs them.
func Main(m *testing.M, variable string) int {
	if os.Getenv(variable) == "" {
		_, _ = fmt.Fprintf(os.Stderr, "The examples are left out, because %s is not set.\n", variable)
		flag.Parse() //nolint:revive // this is TestMain's
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
