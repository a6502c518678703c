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

// NewSource returns an unpredictable source, ChaCha8 with a seed of the system, for one goroutine.
func NewSource() *mathrand.ChaCha8 {
	var seed [32]byte
	// Read never fails, as its documentation says.
	_, _ = rand.Read(seed[:])
	return mathrand.NewChaCha8(seed)
}

// wordsPerKind is how many words of the source one kind takes.
const wordsPerKind = 2

// Random draws n of the coins, every coin equally likely, or all when there are no more than n. The result has the
// multivariate hypergeometric distribution: the first kind's share is hypergeometric among all coins, the next one's
// among the coins that are left, and so on.
//
// Time and memory depend only on the number of kinds, and so does the number of words taken from the source: two for
// each kind, for ten coins as for 10^9. They seed a generator for that kind (PCG-DXSM), because drawing by rejection
// takes a number of tries that is not known before, 1.4 on average.
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
