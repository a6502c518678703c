package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size. As text it is a whole number with a unit of 1024, "64KiB" or "256 MiB", or without one, "1000", in
// bytes. KB and K are refused, because they often mean 1000.
type Bytes int64

// Units of Bytes.
const (
	KiB Bytes = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// unit is a suffix and its factor.
type unit struct {
	suffix string
	factor Bytes
}

// units returns the units, the largest first. "B" comes last: it ends the others too.
func units() []unit {
	return []unit{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}
}

// UnmarshalText reads a size: zero or a positive whole number, at most an int64, with one of the units B, KiB, MiB,
// GiB and TiB in any case, after a space or not, or without a unit.
func (b *Bytes) UnmarshalText(text []byte) error {
	digits, factor := strings.TrimSpace(string(text)), Bytes(1)
	for _, u := range units() {
		if n := len(digits) - len(u.suffix); n >= 0 && strings.EqualFold(digits[n:], u.suffix) {
			digits, factor = strings.TrimRight(digits[:n], " "), u.factor
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || Bytes(n) > math.MaxInt64/factor {
		return fmt.Errorf("%q is not a size such as 1000, 64KiB or 256MiB", text)
	}
	*b = Bytes(n) * factor
	return nil
}

// String returns the size with the largest unit that leaves a whole number: UnmarshalText reads the same size back.
func (b Bytes) String() string {
	for _, u := range units() {
		if b != 0 && b%u.factor == 0 {
			return strconv.FormatInt(int64(b/u.factor), 10) + u.suffix
		}
	}
	return "0B"
}
