package chassis

import (
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent is the default of GOGC. A replica keeps a few MiB alive and allocates some hundred MiB a second, so
// doubling Go's default of 100 costs about 8 MiB and saves a tenth of a replica's CPU (rowlock bench counts --only
// hot-2, with and without GOGC=100).
const gcPercent = 200

// tuneGC sets GOGC, and sets GOMEMLIMIT to nine tenths of the cgroup's limit, so that Go collects more often near it.
// Either variable in environ wins. Tests replace the cgroup with the options.
func tuneGC(environ map[string]string, limit ...memlimit.Option) {
	if environ["GOGC"] == "" {
		debug.SetGCPercent(gcPercent)
	}
	// It fails if there is no cgroup limit to read.
	_, _ = memlimit.Set(limit...)
}
