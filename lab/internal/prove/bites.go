package prove

import "slices"

// A Bug is a mistake that somebody could make, built into a service by a tag, and how
// the proof finds it.
type Bug struct {
	// Tag is the build tag.
	Tag string
	// What is the mistake, in a few words.
	What string
	// Service has it.
	Service string
	// Window is where it shows.
	Window string
	// Checks are those that find it, of the service, or of the window as a whole.
	Checks []string
}

// Bugs are the mistakes that the proof must find.
func Bugs() []Bug {
	return []Bug{
		{"bug_autocommit", "a statement is sent again by the pool", serviceCounts, windowReplies, []string{linearizable}},
		{"bug_unordered", "a batch without ordered locks", serviceCounts, windowNone, []string{deadlocks}},
		{"bug_unfenced", "a lease without its fence", servicePyggpot, windowStop, []string{linearizable}},
		{"bug_now", "now() for clock_timestamp() in a lease", serviceIidy, windowHeld, []string{lateCheck}},
		{"bug_donothing", "DO NOTHING for a key that has expired", servicePayments, windowNone, []string{linearizable}},
		{"bug_sequence", "ids given out before the insert, as by a sequence", serviceEvents, windowKill, []string{"ids"}},
		{"bug_finish", "finish what was claimed without value IS NULL", serviceEvents, windowBackends, []string{"worked once"}},
		{"bug_textparams", "no binary_parameters behind pgbouncer", serviceCounts, windowPooler, []string{linearizable, "answers"}},
	}
}

// CaughtBy is the failure that shows the bug; nil when the report has none that it
// is expected to cause.
func (b Bug) CaughtBy(r *Report) *Failure {
	for _, f := range r.Failures() {
		if f.Window == b.Window && (f.Service == b.Service || f.Service == "") && slices.Contains(b.Checks, f.Check) {
			return &f
		}
	}
	return nil
}

// Unseen says why the server cannot show the bug, when nothing but a deadlock would; ""
// when it can.
func (b Bug) Unseen(r *Report) string {
	if slices.Equal(b.Checks, []string{deadlocks}) {
		return r.Uncounted
	}
	return ""
}
