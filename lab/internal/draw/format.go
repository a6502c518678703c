package draw

import (
	"math"
	"strconv"
	"strings"
)

// format writes a value in its unit, with three digits at most.
func format(unit string, v float64) string {
	if v == 0 {
		return "0" + map[string]string{"percentunit": " %", "s": " s", "bytes": " B"}[unit]
	}
	size := math.Abs(v)
	switch unit {
	case "percentunit":
		return digits(v*100) + " %"
	case "s":
		switch {
		case size < 1e-3:
			return digits(v*1e6) + " µs"
		case size < 1:
			return digits(v*1e3) + " ms"
		}
		return digits(v) + " s"
	case "bytes":
		names := []string{" B", " KiB", " MiB", " GiB"}
		i := 0
		for ; size >= 1024 && i < len(names)-1; i++ {
			size /= 1024
		}
		return digits(math.Copysign(size, v)) + names[i]
	}
	text := digits(v)
	if size >= 1e4 {
		text = digits(v/1e3) + " K"
	}
	if unit == "reqps" || unit == "ops" {
		return text + "/s"
	}
	return text
}

// digits writes at most three that count.
func digits(v float64) string {
	places := 0
	switch size := math.Abs(v); {
	case size < 0.1:
		places = 3
	case size < 1:
		places = 2
	case size < 100:
		places = 1
	}
	text := strconv.FormatFloat(v, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}
