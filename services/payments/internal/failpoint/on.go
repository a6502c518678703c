//go:build failpoint

package failpoint

import (
	"os"
	"syscall"

	"github.com/rowlock/rowlock/platform/config"
)

// Hit kills the process when the environment names this step. It then never returns:
// this side closes, flushes and rolls back nothing.
func Hit(step string) {
	if config.Environ()["ROWLOCK_FAILPOINT"] != step {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}
