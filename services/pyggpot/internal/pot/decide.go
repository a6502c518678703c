package pot

import "maps"

// Decide makes changes one after the other, in their order. before holds the pots as they are; Decide returns their
// contents afterwards, and an answer for each change, nil for one of a pot that is not in before.
func Decide(before map[ID]Pot, changes []Change, source Source) (after map[ID]Contents, answers []*Answer) {
	pots := maps.Clone(before)
	answers = make([]*Answer, len(changes))
	for i, c := range changes {
		p, there := pots[c.Pot]
		if !there {
			continue
		}
		var answer Answer
		p.Contents, answer = p.Apply(c, source)
		pots[c.Pot], answers[i] = p, &answer
	}

	after = make(map[ID]Contents, len(pots))
	for id, p := range pots {
		after[id] = p.Contents
	}
	return after, answers
}
