// Mutant of services/pyggpot/internal/pot/decide.go: a group answers all its callers with the last state.

package pot

import "maps"

// Decide returns the right contents to store, but makes each caller's answer from the contents after all changes of the
// group.
func Decide(before map[ID]Pot, changes []Change, source Source) (after map[ID]Contents, answers []*Answer) {
	pots := maps.Clone(before)
	for _, c := range changes {
		if p, there := pots[c.Pot]; there {
			p.Contents, _ = p.Apply(c, source)
			pots[c.Pot] = p
		}
	}

	after = make(map[ID]Contents, len(pots))
	for id, p := range pots {
		after[id] = p.Contents
	}
	answers = make([]*Answer, len(changes))
	for i, c := range changes {
		p, there := pots[c.Pot]
		if len(changes) == 1 {
			p = before[c.Pot]
		}
		if there {
			_, answer := p.Apply(c, source)
			answers[i] = &answer
		}
	}
	return after, answers
}
