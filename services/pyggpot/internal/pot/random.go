package pot

import (
	"crypto/rand"
	mathrand "math/rand/v2"
)

// Source returns random words, each equally likely.
type Source = mathrand.Source

// NewSource returns an unpredictable source for one goroutine: ChaCha8 with a seed from the system.
func NewSource() *mathrand.ChaCha8 {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails, as its documentation says
	return mathrand.NewChaCha8(seed)
}

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
		share := hypergeometric(coins.Count, left-coins.Count, n, mathrand.NewPCG(source.Uint64(), source.Uint64()))
		if share > 0 {
			drawn[coins.Kind] = share
		}
		left -= coins.Count
		n -= share
	}
	return drawn
}
