//go:build failpoint

package failpoint

import (
	"os"
	"syscall"

	"github.com/rowlock/rowlock/platform/config"
)

// Hit kills the process if the environment names this step. It then never returns, and
// the process closes, flushes and rolls back nothing.
func Hit(step string) {
	if config.Environ()["ROWLOCK_FAILPOINT"] != step {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}
