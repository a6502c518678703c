package pot

import (
	"math"
	"math/big"
	mathrand "math/rand/v2"
	"testing"
)

// seeded returns a source that a test can repeat.
func seeded(n byte) *mathrand.ChaCha8 { return mathrand.NewChaCha8([32]byte{n}) }

// counted is a source that counts its words.
type counted struct {
	Source

	words int
}

func (c *counted) Uint64() uint64 {
	c.words++
	return c.Source.Uint64()
}

func TestRandomBoundaries(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt32
	for name, tt := range map[string]struct {
		pot  Contents
		n    int64
		want int64
	}{
		"nothing there":   {nil, 5, 0},
		"none wanted":     {Contents{Gold: 3}, 0, 0},
		"below none":      {Contents{Gold: 3}, -1, 0},
		"all":             {Contents{Bronze: 5, Gold: 3}, 8, 8},
		"more than all":   {Contents{Bronze: 5, Gold: 3}, 9, 8},
		"all but one":     {Contents{Bronze: most - 1, Gold: 1}, most - 1, most - 1},
		"one of many":     {Contents{Bronze: most - 1, Gold: 1}, 1, 1},
		"one kind":        {Contents{Silver: most}, 1e9, 1e9},
		"all of the most": {Contents{Bronze: 1, Silver: 1, Gold: most - 2}, most, most},
		"half the most":   {Contents{Bronze: most / 3, Silver: most / 3, Gold: most / 3}, most / 2, most / 2},
	} {
		source := seeded(2)
		for range 200 {
			drawn := tt.pot.Random(tt.n, source)
			if drawn.Total() != tt.want {
				t.Fatalf("%s: %d drawn, want %d", name, drawn.Total(), tt.want)
			}
			for kind, n := range drawn {
				if n < 0 || n > tt.pot[kind] {
					t.Fatalf("%s: %d coins of kind %d out of %d", name, n, kind, tt.pot[kind])
				}
			}
		}
	}
}

// pearson returns the chi-square statistic of many draws. The coins of one draw are not independent, so it is scaled by
// (N-1)/(N-n).
func pearson(pot Contents, n int64, draws int, draw func() Contents) float64 {
	sums := Contents{}
	for range draws {
		sums = sums.Plus(draw())
	}
	all := pot.Total()
	var x float64
	for kind, there := range pot {
		expected := float64(draws) * float64(n) * float64(there) / float64(all)
		x += math.Pow(float64(sums[kind])-expected, 2) / expected
	}
	return x * float64(all-1) / float64(all-n)
}

// limit is the value that chi-square with two degrees of freedom exceeds once in a million.
const limit = 27.63

func TestEveryCoinIsEquallyLikely(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pot   Contents
		n     int64
		draws int
	}{
		"40 of 100":      {Contents{Bronze: 50, Silver: 30, Gold: 20}, 40, 300},
		"few coins":      {Contents{Bronze: 3, Silver: 2, Gold: 1}, 2, 20_000},
		"one coin":       {Contents{Bronze: 50, Silver: 30, Gold: 20}, 1, 20_000},
		"nearly all":     {Contents{Bronze: 500, Silver: 300, Gold: 200}, 990, 2000},
		"as many as fit": {Contents{Bronze: 1 << 30, Silver: 1 << 29, Gold: 1<<29 - 1}, 1e9, 3000},
		"uneven":         {Contents{Bronze: 2e9, Silver: 1e5, Gold: 100}, 1e8, 3000},
	} {
		source := seeded(3)
		if x := pearson(tt.pot, tt.n, tt.draws, func() Contents { return tt.pot.Random(tt.n, source) }); x > limit {
			t.Errorf("%s: %.2f, the limit is %.2f", name, x, limit)
		}
	}
}

// TestHypergeometricResultByResult compares each single result with its probability: a draw with a wrong spread may
// have the right mean.
func TestHypergeometricResultByResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ good, bad, n int64 }{
		{3, 4, 3}, {1, 1, 1}, {10, 2, 6}, {30, 70, 40}, {70, 30, 60}, {5, 1000, 500}, {200, 300, 250}, {1, 2000, 1000},
	} {
		const draws = 100_000
		source := seeded(4)
		seen := map[int64]int{}
		for range draws {
			seen[hypergeometric(tt.good, tt.bad, tt.n, source)]++
		}
		var x, rest float64
		restSeen, degrees := 0, 0
		for k := max(0, tt.n-tt.bad); k <= min(tt.good, tt.n); k++ {
			expected := draws * probability(tt.good, tt.bad, tt.n, k)
			if expected < 10 {
				rest, restSeen = rest+expected, restSeen+seen[k]
				continue
			}
			x += math.Pow(float64(seen[k])-expected, 2) / expected
			degrees++
		}
		if rest > 1 {
			x += math.Pow(float64(restSeen)-rest, 2) / rest
			degrees++
		}
		// Beyond five deviations of chi-square (Wilson and Hilferty's cube root).
		d := float64(degrees - 1)
		if d > 0 && (math.Cbrt(x/d)-(1-2/(9*d)))/math.Sqrt(2/(9*d)) > 5 {
			t.Errorf("%+v: %.1f with %d degrees of freedom", tt, x, degrees-1)
		}
	}
}

// probability returns the exact probability of k.
func probability(good, bad, n, k int64) float64 {
	ways := new(big.Int).Mul(new(big.Int).Binomial(good, k), new(big.Int).Binomial(bad, n-k))
	p := new(big.Rat).SetFrac(ways, new(big.Int).Binomial(good+bad, n))
	f, _ := p.Float64()
	return f
}

// TestHatCovers: the rectangle covers every distribution of up to 60 coins, so that no result is cut off. The method is
// exact only then.
func TestHatCovers(t *testing.T) {
	t.Parallel()
	for all := int64(2); all <= 60; all++ {
		for few := int64(1); few <= all/2; few++ {
			for taken := int64(1); taken <= all/2; taken++ {
				h := newHat(few, all-few, taken)
				for x := range min(few, taken) + 1 {
					if ratio := h.logRatio(x); ratio > 1e-12 {
						t.Fatalf("%d of %d, %d taken: %d is more likely than the mode %d", few, all, taken, x, h.mode)
					}
					reach := math.Exp(h.logRatio(x)/2) * max(math.Abs(float64(x)-h.centre), math.Abs(float64(x)+1-h.centre))
					if reach > h.width/2*(1+1e-12) || float64(x) >= h.end {
						t.Fatalf("%d of %d, %d taken: the hat of %g does not cover %d, at %g", few, all, taken, h.width, x, reach)
					}
				}
			}
		}
	}
}

// TestLogFactorialRatio compares logFactorialRatio with sums of logarithms.
func TestLogFactorialRatio(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, 2, 17, 18, 19, 20, 100, 1e4, 1e6, 1e9, math.MaxInt32 - 1<<18} {
		for _, d := range []int64{0, 1, 2, 5, 18, 19, 100, 1e4, 1 << 18} {
			var sum, lost float64 // Kahan's
			for i := int64(1); i <= d; i++ {
				term := math.Log(float64(n+i)) - lost
				next := sum + term
				sum, lost = next, (next-sum)-term
			}
			up, down := logFactorialRatio(n, d), logFactorialRatio(n+d, -d)
			if math.Abs(up-sum) > 2e-9 || math.Abs(down+sum) > 2e-9 {
				t.Errorf("log((%d+%d)!/%d!) is %g: off by %g up and %g down", n, d, n, sum, up-sum, down+sum)
			}
		}
	}
}

// TestDrawsDoNotGrowWithTheCoins: drawing one kind's share takes about as many random numbers for 10^9 coins as for
// ten, rejected ones included, and all kinds take two words each of the source.
func TestDrawsDoNotGrowWithTheCoins(t *testing.T) {
	t.Parallel()
	const times = 10_000
	for _, n := range []int64{10, 1e3, 1e6, 1e9} {
		source := &counted{Source: seeded(3)}
		most := 0
		for range times {
			before := source.words
			hypergeometric(7e8, 14e8, n, source)
			most = max(most, source.words-before)
		}
		if mean := float64(source.words) / times; mean > 6 || most > 100 {
			t.Errorf("%d coins: %.1f numbers on average, %d at the most", n, mean, most)
		}
		source.words = 0
		drawn := Contents{Bronze: 7e8, Silver: 7e8, Gold: 7e8}.Random(n, source)
		if drawn.Total() != n || source.words != 3*2 {
			t.Errorf("%d coins: %d drawn with %d words", n, drawn.Total(), source.words)
		}
	}
}
