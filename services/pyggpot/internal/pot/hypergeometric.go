package pot

import "math"

// The hat of the ratio of uniforms: hatSlope*sqrt(variance+1/2) + hatOffset is the width of the rectangle that covers
// every hypergeometric distribution (E. Stadlober, "The ratio of uniforms approach for generating discrete random
// variates", J. Comput. Appl. Math. 31, 1990, equation 8; NumPy uses it too). TestHatCovers tests it with every small
// distribution.
var (
	hatSlope  = 2 * math.Sqrt(2/math.E)
	hatOffset = 3 - 2*math.Sqrt(3/math.E)
)

// deviations cuts the tails: the probability beyond that many deviations is less than 1e-57.
const deviations = 16

// hypergeometric draws the number of good coins among n coins taken at random from good and bad ones. 0 <= n <=
// good+bad < 2^53.
//
// It is exact except for rounding: the probability of each result, relative to the most likely one, is right to 1e-8
// for counts up to 2^31 (see logFactorialRatio). A chi-square test would need more than 10^15 draws to notice.
func hypergeometric(good, bad, n int64, source Source) int64 {
	all := good + bad
	switch { // only one result is possible
	case n == 0 || good == 0:
		return 0
	case bad == 0:
		return n
	case n == all:
		return good
	}

	// By symmetry it is enough to draw for the rarer of the two kinds, and for the smaller of taken and left.
	few, many := min(good, bad), max(good, bad)
	taken := min(n, all-n)
	x := newHat(few, many, taken).draw(source)

	if good > bad {
		x = taken - x
	}
	if taken < n {
		x = good - x
	}
	return x
}

// hat holds the rectangle from which a hypergeometric number is drawn.
type hat struct {
	few, many, taken int64
	mode             int64
	centre, width    float64
	end              float64 // results are below
}

// newHat returns the hat of a distribution.
func newHat(few, many, taken int64) hat {
	f, m, t := float64(few), float64(many), float64(taken)
	all := f + m
	mean := t * (f / all)
	variance := (all - t) / (all - 1) * mean * (m / all)
	deviation := math.Sqrt(variance + 0.5)
	centre := mean + 0.5
	return hat{
		few: few, many: many, taken: taken,
		mode:   int64(math.Floor((t + 1) * ((f + 1) / (all + 2)))),
		centre: centre,
		width:  hatSlope*deviation + hatOffset,
		end:    min(float64(min(taken, few)+1), math.Floor(centre+deviations*deviation)),
	}
}

// draw draws points of the rectangle until one is under the distribution, and returns its result.
func (h hat) draw(source Source) int64 {
	for {
		u, v := uniform(source), uniform(source)
		at := h.centre + h.width*(v-0.5)/u
		if at < 0 || at >= h.end {
			continue
		}

		x := int64(at)
		if 2*math.Log(u) <= h.logRatio(x) {
			return x
		}
	}
}

// uniform returns a number in (0, 1), one of 2^52, each equally likely.
func uniform(source Source) float64 {
	const bits = 52
	return (float64(source.Uint64()>>(64-bits)) + 0.5) / (1 << bits)
}

// logRatio returns the logarithm of P(x)/P(mode).
func (h hat) logRatio(x int64) float64 {
	d := x - h.mode
	return -(logFactorialRatio(h.mode, d) + logFactorialRatio(h.few-h.mode, -d) +
		logFactorialRatio(h.taken-h.mode, -d) + logFactorialRatio(h.many-h.taken+h.mode, d))
}

// logFactorialRatio returns log((n+d)!/n!), with an error below 2e-9 for n and n+d up to 2^31 and d up to 2^18, which
// is 16 deviations of the widest such distribution.
//
// The difference of two logarithms of factorials would be off by 4e-6, because each is as large as 4e10. So Stirling's
// series (DLMF 5.11.1) is subtracted term by term. The result is at most d*log(n) = 2^18*21.5 = 5.6e6, with a rounding
// error of a few times 2^-53 of that.
func logFactorialRatio(n, d int64) float64 {
	if n == 0 || n+d == 0 || n < small && n+d < small { // Stirling's series has log(n)
		return logFactorial(n+d) - logFactorial(n)
	}
	a, b, diff := float64(n), float64(n+d), float64(d)
	growth := math.Log1p(diff / a)
	if 2*b < a { // 1+diff/a would lose digits of b
		growth = math.Log(b / a)
	}
	return (a+0.5)*growth + diff*math.Log(b) - diff + stirling(b) - stirling(a)
}

const (
	// small is the smallest n for which the series computes log(n!).
	small = 19
	// The series of Stirling's remainder, right to 1e-16 from small on.
	stirling1, stirling3, stirling5, stirling7 = 1. / 12, -1. / 360, 1. / 1260, -1. / 1680
	stirling9, stirling11                      = 1. / 1188, -691. / 360360
)

// stirling returns log(n!) - ((n+1/2)log(n) - n + log(2*pi)/2).
func stirling(n float64) float64 {
	if n < small {
		const halfLogTwoPi = 0.9189385332046727417803297364056176
		return logFactorial(int64(n)) - ((n+0.5)*math.Log(n) - n + halfLogTwoPi)
	}
	q := 1 / (n * n)
	return (stirling1 + q*(stirling3+q*(stirling5+q*(stirling7+q*(stirling9+q*stirling11))))) / n
}

// logFactorial returns log(n!) for a small n.
func logFactorial(n int64) float64 {
	log, _ := math.Lgamma(float64(n) + 1)
	return log
}
