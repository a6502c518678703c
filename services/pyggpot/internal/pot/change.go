package pot

// Change is a change of one pot's coins: it adds coins, or removes some.
type Change struct {
	Pot ID

	// Add holds the coins to add, all of them or none.
	Add Contents
	// Take holds the coins to remove, of each kind at most as many as the pot has.
	Take Contents
	// Draw is the number of coins to remove at random from the rest, or all if there are fewer.
	Draw int64
}

// Answer is the result of a change. Stores keep it as JSON.
type Answer struct {
	// Moved holds the coins that were added or removed.
	Moved Contents `json:"moved,omitempty"`
	// Full says that no coins were added because they do not fit.
	Full bool `json:"full,omitempty"`
	// Missing says that there is no such pot.
	Missing bool `json:"missing,omitempty"`
}

// Apply returns the contents of the pot after a change, and its answer. It uses source only to draw coins at random.
func (p Pot) Apply(c Change, source Source) (Contents, Answer) {
	if len(c.Add) > 0 {
		if p.Contents.Total()+c.Add.Total() > int64(p.MaxCoins) {
			return p.Contents, Answer{Full: true}
		}
		return p.Contents.Plus(c.Add), Answer{Moved: c.Add}
	}

	moved := p.Contents.AtMost(c.Take)
	left := p.Contents.Less(moved)
	if c.Draw > 0 {
		drawn := left.Random(c.Draw, source)
		moved, left = moved.Plus(drawn), left.Less(drawn)
	}
	return left, Answer{Moved: moved}
}
