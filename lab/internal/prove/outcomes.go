package prove

import (
	"context"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
)

// requestTimeout is REQUEST_TIMEOUT of the replicas, but for what a timer may be early by.
const requestTimeout = 3900 * time.Millisecond

// checkOutcomes demands that no caller was told OUTCOME_UNKNOWN in windows in which the database comes back, unless it
// stayed away until the request's deadline. before is how many lost answers the replicas had resolved before the
// window.
func (s site) checkOutcomes(ctx context.Context, f *findings, before float64) {
	now, _ := s.metric(ctx, resolvedTotal)
	f.signs[resolved] = int(max(0, now-before))
	if s.window == windowRestart { // which a change may outlive that the service sends again
		f.signs[notApplied] = f.signs[resolved]
	}
	switch s.window {
	case windowReplies, windowCommits, windowBackends, windowPooler, windowRestart, windowCitusCoordinator,
		windowCitusReplies:
	default:
		return
	}

	early, late := 0, 0
	for _, op := range f.ops {
		switch {
		case op.Code != string(rowlock.ErrOutcomeUnknown):
		case op.Return-op.Call < requestTimeout:
			early++
		default:
			late++
		}
	}
	f.addf(outcomes, early == 0, "%d OUTCOME_UNKNOWN, %d more when the database stayed away until the deadline; "+
		"%d lost answers were resolved", early, late, f.signs[resolved])
}
