package prove

import (
	"maps"
	"slices"
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

func mutant(tag, what, window string, checks ...string) Mutant {
	return Mutant{Tag: tag, What: what, Window: window, Checks: checks}
}

// Mutants returns the mistakes that the proof must find.
func Mutants() (all []Mutant) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, kinds[name].mutants...)
	}
	return all
}

// FoundBy returns the failure that the mutant is expected to cause; nil when the
// report has none.
func (m Mutant) FoundBy(r *Report) *Failure {
	for _, f := range r.Failures() {
		if f.Window == m.Window && (f.Service == m.Service || f.Service == "") && slices.Contains(m.Checks, f.Name) {
			return &f
		}
	}
	return nil
}
