package pot

import (
	"maps"
	"slices"
)

// Kind is the metal of a coin, by its number on the wire and in the store.
type Kind int32

// The kinds.
const (
	Bronze Kind = 1
	Silver Kind = 10
	Gold   Kind = 100
)

// Coins is a number of coins of one kind.
type Coins struct {
	Kind  Kind
	Count int64
}

// Contents holds numbers of coins by kind; a kind may be missing. The numbers in a store and in a request fit into 32
// bits and are few, so no sum overflows.
type Contents map[Kind]int64

// Total returns the number of coins.
func (c Contents) Total() int64 {
	var total int64
	for _, n := range c {
		total += n
	}
	return total
}

// List returns the coins by ascending kind, without kinds that c does not hold.
func (c Contents) List() []Coins {
	list := make([]Coins, 0, len(c))
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		if c[kind] != 0 {
			list = append(list, Coins{kind, c[kind]})
		}
	}
	return list
}

// Plus returns the sum of both.
func (c Contents) Plus(more Contents) Contents {
	sum := make(Contents, len(c)+len(more))
	maps.Copy(sum, c)
	for kind, n := range more {
		sum[kind] += n
	}
	return sum
}

// Less returns c without the coins of fewer, all of which c must have.
func (c Contents) Less(fewer Contents) Contents {
	left := maps.Clone(c)
	for kind, n := range fewer {
		left[kind] -= n
	}
	return left
}

// AtMost returns, kind by kind, as many of the wanted coins as c has.
func (c Contents) AtMost(wanted Contents) Contents {
	there := make(Contents, len(wanted))
	for kind, n := range wanted {
		n = min(n, c[kind])
		if n > 0 {
			there[kind] = n
		}
	}
	return there
}
