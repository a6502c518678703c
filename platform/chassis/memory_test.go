package chassis

import (
	"runtime/debug"
	"testing"
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
