package chassis

import (
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent is the default of GOGC. A replica keeps a few MiB alive and makes some hundred MiB of garbage a second, so
// twice Go's own 100 costs about 8 MiB and saves a tenth of a replica's CPU (rowlock bench counts --only hot-2, with
// GOGC=100 and without).
const gcPercent = 200

// tuneGC sets GOGC, and GOMEMLIMIT to nine tenths of the cgroup's limit, near which Go collects more often. Either
// variable in environ wins. The options replace the cgroup, in tests.
func tuneGC(environ map[string]string, limit ...memlimit.Option) {
	if environ["GOGC"] == "" {
		debug.SetGCPercent(gcPercent)
	}
	// The error is that there is no cgroup whose limit could be read.
	_, _ = memlimit.Set(limit...)
}
