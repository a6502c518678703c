package prove

import (
	"testing"

	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// What is stored lies between the acknowledged events and these with those in doubt: a lost event is found, and so is a
// request that was applied twice.
func TestStoredOnce(t *testing.T) {
	t.Parallel()
	add := func(outcome targets.Outcome) history.Op { return history.Op{Key: "add", Outcome: outcome} }
	all := ops{add(done), add(done), add(lost), add(undone), {Key: "get", Outcome: lost}}
	for added, want := range map[int]bool{1: false, 2: true, 3: true, 4: false} {
		f := &findings{ops: all}
		(&events{site: site{window: windowReplies}, ids: []int64{1, 2}}).checkStored(f, added)
		if len(f.checks) != 1 || f.checks[0].OK != want {
			t.Errorf("%d events were added: %+v, want %t", added, f.checks, want)
		}
	}

	f := new(findings)
	(&events{site: site{window: windowHostile}}).checkStored(f, 7)
	if len(f.checks) != 0 {
		t.Errorf("attackers add events, too: %+v", f.checks)
	}
}
