package pot

import (
	"crypto/rand"
	mathrand "math/rand/v2"
)

// Source returns random words, each equally likely.
type Source interface {
	// Uint64 returns the next word.
	Uint64() uint64
}

// NewSource returns an unpredictable source for one goroutine: ChaCha8 with a seed from the system.
func NewSource() *mathrand.ChaCha8 {
	var seed [32]byte
	// Read never fails, as its documentation says.
	_, _ = rand.Read(seed[:])
	return mathrand.NewChaCha8(seed)
}

// wordsPerKind is the number of words that one kind takes from the source.
const wordsPerKind = 2

// Random draws n of the coins, each equally likely, or all if there are no more than n. The result has the multivariate
// hypergeometric distribution: the first kind's share is hypergeometric among all coins, the next one's among the
// remaining coins, and so on.
//
// Time, memory and the number of words taken from the source depend only on the number of kinds: two words for each
// kind, whether for ten coins or 10^9. The words seed a generator for that kind (PCG-DXSM), because drawing by
// rejection takes an unpredictable number of tries, 1.4 on average.
func (c Contents) Random(n int64, source Source) Contents {
	list := c.List()
	left := c.Total()
	n = max(0, min(n, left))
	drawn := make(Contents, len(list))

	for _, coins := range list {
		var words [wordsPerKind]uint64
		for i := range words {
			words[i] = source.Uint64()
		}
		share := hypergeometric(coins.Count, left-coins.Count, n, mathrand.NewPCG(words[0], words[1]))
		if share > 0 {
			drawn[coins.Kind] = share
		}
		left -= coins.Count
		n -= share
	}
	return drawn
}
