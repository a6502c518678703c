package chassis

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

//nolint:paralleltest // it changes the process
func TestTuneGC(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for _, tt := range []struct {
		environ map[string]string
		want    int
	}{
		{nil, gcPercent},
		{map[string]string{"GOGC": "50"}, 100}, // Go has set it by itself
	} {
		debug.SetGCPercent(100)
		tuneGC(tt.environ)
		if got := debug.SetGCPercent(100); got != tt.want {
			t.Errorf("with %v GOGC is %d, want %d", tt.environ, got, tt.want)
		}
	}
}

// GOMEMLIMIT is nine tenths of the container's limit, so that Go collects before the kernel kills, unless it is set.
func TestMemoryLimit(t *testing.T) {
	gc, before := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() { debug.SetGCPercent(gc); debug.SetMemoryLimit(before) }()
	limit := func() int64 {
		debug.SetMemoryLimit(math.MaxInt64)
		tuneGC(nil, memlimit.WithProvider(memlimit.Limit(1000)))
		return debug.SetMemoryLimit(-1)
	}
	if got := limit(); got != 900 {
		t.Errorf("in a container of 1000 bytes the limit is %d", got)
	}
	t.Setenv("GOMEMLIMIT", "100MiB") // Go has read the variable by itself
	if got := limit(); got != math.MaxInt64 {
		t.Errorf("with GOMEMLIMIT the limit is %d", got)
	}
}
