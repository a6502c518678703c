package observe

import (
	"os"
	"testing"
	"time"
)

func breakThings(t *testing.T, r *rig) { t.Helper(); _ = r }

func panelsMove(t *testing.T, r *rig, all []*page, since time.Time) {
	t.Helper()
	everyTarget(all, func(where, expr string) {
		if _, moved, err := r.hasData(t.Context(), expr, since); err != nil || !moved {
			t.Logf("%s: always zero (%v)", where, err)
		}
	})
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
