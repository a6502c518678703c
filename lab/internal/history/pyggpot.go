package history

// Coins counts coins by kind: bronze, silver, gold.
type Coins [3]int32

// Sum returns the number of all coins.
func (c Coins) Sum() int32 { return c[0] + c[1] + c[2] }

// minus takes coins out; false when there are fewer.
func (c Coins) minus(taken Coins) (Coins, bool) {
	for i, n := range taken {
		if n > c[i] {
			return c, false
		}
		c[i] -= n
	}
	return c, true
}

// PotInput describes an operation on a pot: Add, Remove by kind, Draw at random, or a
// look when all are zero. The output is Coins.
type PotInput struct {
	Add, Remove Coins
	Draw        int32
}

// IsRead reports whether the operation only looks at the pot.
func (in PotInput) IsRead() bool { return in == PotInput{} }

// Pots returns the model of a pot for at most size coins that begins empty. Any coins
// that are there in the right number explain a random draw; a draw of unknown outcome
// may have taken any of them, so many states follow.
func Pots(size int32) Model {
	m := newModel(Coins{}, func(pot Coins, in PotInput, op Op) []Coins { return in.step(pot, op, size) })
	m.Refusals = true
	return m
}

func (in PotInput) step(pot Coins, op Op, size int32) []Coins {
	out, _ := op.Output.(Coins)
	known := op.Outcome == OK
	fits := pot.Sum()+in.Add.Sum() <= size
	switch {
	case op.Outcome == Refused: // because the pot is full
		return when(!fits, pot)
	case in.IsRead():
		return when(out == pot, pot)
	case in.Add != Coins{}:
		after := pot
		for i, n := range in.Add {
			after[i] += n
		}
		if !fits {
			after = pot
		}
		return when(!known || fits && out == in.Add, after)
	case in.Draw > 0:
		drawn := min(in.Draw, pot.Sum())
		if !known {
			return draws(pot, drawn)
		}
		after, ok := pot.minus(out)
		return when(ok && out.Sum() == drawn, after)
	default:
		taken := Coins{}
		for i, n := range in.Remove {
			taken[i] = min(n, pot[i])
		}
		after, _ := pot.minus(taken)
		return when(!known || out == taken, after)
	}
}

// draws returns all pots that are left when n coins are drawn.
func draws(pot Coins, n int32) []Coins {
	var all []Coins
	for bronze := int32(0); bronze <= min(n, pot[0]); bronze++ {
		for silver := int32(0); silver <= min(n-bronze, pot[1]); silver++ {
			if after, ok := pot.minus(Coins{bronze, silver, n - bronze - silver}); ok {
				all = append(all, after)
			}
		}
	}
	return all
}
