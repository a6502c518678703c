package prove

import (
	"maps"
	"path"
	"slices"
)

// Mutant describes a known mistake, which is built into a service by a diff.
type Mutant struct {
	// Name is what rowlock mutation-test calls it.
	Name string
	// What describes the mistake in a few words.
	What string
	// Service has the mistake, and Window shows it.
	Service, Window string
	// Checks find it, of the service or of the window as a whole.
	Checks []string
}

func mutant(name, what, window string, checks ...string) Mutant {
	return Mutant{Name: name, What: what, Window: window, Checks: checks}
}

// File names the diff that makes the mistake, from the root of the source tree.
func (m Mutant) File() string { return path.Join("lab", "mutants", m.Name+".diff") }

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
