package pot

import (
	"maps"
	"slices"
)

// Kind is what a coin is made of, by its number on the wire and in the store.
type Kind int32

// The kinds.
const (
	Bronze Kind = 1
	Silver Kind = 10
	Gold   Kind = 100
)

// Valid tells whether the kind is one of those above.
func (k Kind) Valid() bool { return k == Bronze || k == Silver || k == Gold }

// Coins are so many coins of one kind.
type Coins struct {
	Kind  Kind
	Count int64
}

// Contents are coins by kind. A kind without coins need not be there. A store's
// and a request's numbers fit into 32 bits and there are few of them, so that
// no sum comes near 64.
type Contents map[Kind]int64

// Sum gathers coins, of which several may be of one kind.
func Sum(coins []Coins) Contents {
	sum := make(Contents, len(coins))
	for _, c := range coins {
		sum[c.Kind] += c.Count
	}
	return sum
}

// Total is how many coins there are.
func (c Contents) Total() int64 {
	var total int64
	for _, n := range c {
		total += n
	}
	return total
}

// List is the coins by ascending kind, those without a coin left out.
func (c Contents) List() []Coins {
	list := make([]Coins, 0, len(c))
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		if c[kind] != 0 {
			list = append(list, Coins{kind, c[kind]})
		}
	}
	return list
}

// Plus is both together.
func (c Contents) Plus(more Contents) Contents {
	sum := maps.Clone(c)
	if sum == nil {
		sum = make(Contents, len(more))
	}
	for kind, n := range more {
		sum[kind] += n
	}
	return sum
}

// Less is what is left without the others, of which there must be enough.
func (c Contents) Less(fewer Contents) Contents {
	left := maps.Clone(c)
	for kind, n := range fewer {
		left[kind] -= n
	}
	return left
}

// AtMost is as many of the wanted as there are, kind by kind.
func (c Contents) AtMost(wanted Contents) Contents {
	there := make(Contents, len(wanted))
	for kind, n := range wanted {
		if n = min(n, c[kind]); n > 0 {
			there[kind] = n
		}
	}
	return there
}
