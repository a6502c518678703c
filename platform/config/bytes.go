package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size. Its text is a whole number, alone ("1000", in bytes) or with a unit of 1024 ("64KiB", "256 MiB"). KB
// and K are refused, because they often mean 1000.
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

// units returns the units, the largest first. "B" comes last because the others end with it too.
func units() []unit {
	return []unit{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}
}

// UnmarshalText reads a size: a whole number from 0 to the largest int64, without a unit or with B, KiB, MiB, GiB or
// TiB in any case, optionally after a space.
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

// String returns the size in the largest unit that yields a whole number; UnmarshalText reads it back.
func (b Bytes) String() string {
	for _, u := range units() {
		if b != 0 && b%u.factor == 0 {
			return strconv.FormatInt(int64(b/u.factor), 10) + u.suffix
		}
	}
	return "0B"
}
