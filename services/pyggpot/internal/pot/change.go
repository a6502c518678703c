package pot

// Change is a change of one pot's coins: it adds coins, or removes some.
type Change struct {
	Pot ID

	// Add holds the coins to add, all of them or none.
	Add Contents
	// Take holds the coins to remove, of each kind as many as the pot has.
	Take Contents
	// Draw is how many coins to remove at random from the rest. All are removed when there are fewer.
	Draw int64
}

// Answer says what a change has moved, or why it moved nothing.
type Answer struct {
	// Moved holds the coins that were added or removed.
	Moved Contents
	// Full says that the coins do not fit, so that none was added.
	Full bool
}

// Apply returns the contents of the pot after a change, and its answer. The source is used for coins at random alone.
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
