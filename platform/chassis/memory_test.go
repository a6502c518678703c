package chassis

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// GOGC is raised, and GOMEMLIMIT is nine tenths of the container's limit, so that Go collects before the kernel kills.
// Go has read either variable at its start, so that one that is set wins.
func TestTuneGC(t *testing.T) {
	gc, memory := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() { debug.SetGCPercent(gc); debug.SetMemoryLimit(memory) }()

	for _, tt := range []struct {
		gogc, memlimit string
		gc             int
		memory         int64
	}{
		{"", "", gcPercent, 900},
		{"50", "", 100, 900},
		{"", "100MiB", gcPercent, math.MaxInt64},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		if tt.memlimit != "" {
			t.Setenv("GOMEMLIMIT", tt.memlimit) // until the end, so it comes last
		}
		tuneGC(map[string]string{"GOGC": tt.gogc}, memlimit.WithProvider(memlimit.Limit(1000)))
		if got := debug.SetGCPercent(100); got != tt.gc {
			t.Errorf("%+v: GOGC is %d", tt, got)
		}
		if got := debug.SetMemoryLimit(-1); got != tt.memory {
			t.Errorf("%+v: in a container of 1000 bytes the limit is %d", tt, got)
		}
	}
}
