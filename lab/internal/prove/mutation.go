package prove

import (
	"slices"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// Mutant describes a known mistake that a build tag builds into a service.
type Mutant struct {
	// Tag is the build tag.
	Tag string
	// What describes the mistake in a few words.
	What string
	// Service has the mistake, and Window shows it.
	Service, Window string
	// Checks find it, of the service or of the window as a whole.
	Checks []string
}

// Mutants returns the mistakes that the proof must find.
func Mutants() []Mutant {
	const (
		counts, events, iidy = services.Counts, services.Events, services.Iidy
		payments, pyggpot    = services.Payments, services.Pyggpot
	)
	return []Mutant{
		{"bug_autocommit", "a statement is sent again by the pool", counts, windowReplies, []string{linearizable}},
		{"bug_unordered", "a batch without ordered locks", counts, windowNone, []string{deadlocks}},
		{"bug_unfenced", "a lease without its fence", pyggpot, windowStop, []string{linearizable}},
		{"bug_now", "now() for clock_timestamp() in a lease", iidy, windowHeld, []string{lateChanges}},
		{"bug_donothing", "DO NOTHING for a key that has expired", payments, windowNone, []string{linearizable}},
		{"bug_sequence", "ids given out before the insert, as by a sequence", events, windowKill, []string{"ids"}},
		{"bug_finish", "finish what was claimed without value IS NULL", events, windowBackends, []string{"worked once"}},
		{"bug_textparams", "no binary_parameters behind pgbouncer", counts, windowPooler, []string{linearizable, "answers"}},
	}
}

// FoundBy returns the failure that the mutant is expected to cause; nil when the
// report has none.
func (m Mutant) FoundBy(r *Report) *Failure {
	for _, f := range r.Failures() {
		if f.Window == m.Window && (f.Service == m.Service || f.Service == "") && slices.Contains(m.Checks, f.Check) {
			return &f
		}
	}
	return nil
}
