package pot

import "maps"

// Decide applies changes in their order to the pots in before. It returns the contents of the pots afterwards, and an
// answer for each change: it is missing if its pot is not in before.
func Decide(before map[ID]Pot, changes []Change, source Source) (after map[ID]Contents, answers []Answer) {
	pots := maps.Clone(before)
	answers = make([]Answer, len(changes))
	for i, c := range changes {
		p, there := pots[c.Pot]
		if !there {
			answers[i].Missing = true
			continue
		}
		p.Contents, answers[i] = p.Apply(c, source)
		pots[c.Pot] = p
	}

	after = make(map[ID]Contents, len(pots))
	for id, p := range pots {
		after[id] = p.Contents
	}
	return after, answers
}
