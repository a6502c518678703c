package payment_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

func TestHoldsCardNumber(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		good: true, "a" + good + "b": true, "4222222222222": true, "6304000000000000000": true,
		"4242-4242-4242-4242": true, "4242 4242 4242 4242": true, "3782-822463-10005": true, "ride:4242.4242.4242.4242": true,
		// Any separators, mixed, several of them, and of any script.
		"4242/4242/4242/4242": true, "4242,4242,4242,4242": true, "4242-4242 4242_4242": true, "4242--4242 / 4242,4242": true,
		"4-2-4-2-4-2-4-2-4-2-4-2-4-2-4-2": true, "424242424242424-2": true, "4242\u00a04242\u20114242\u30004242": true,
		"42424242\xff42424242": true, "4242" + strings.Repeat("/", 1000) + "424242424242": true,
		// Whatever stands before and behind it.
		"order 7: 4242/4242/4242/4242": true, "4242 4242 4242 4242 12/30 123": true, "1-4242-4242-4242-4242": true,
		"x4242-4242-4242-4242y": true, "4242-4242-4242-4242-4242-4242": true, "\u00e94242/4242/4242/4242\u00e9": true,
		// Too few, too many, a wrong check digit.
		"4242424242424241": false, "424242424242": false, "4242-4242-4242": false, "63040000000000000000": false,
		"1234-5678-9012-3456-78901": false, "ride-1234-5678-9012-3456": false, "": false, "-": false, "4242-": false,
		// Digits that stand side by side are one number, and letters end one.
		good + "1": false, "4242-4242-4242-" + "42421": false, good + good: false,
		"4242x4242x4242x4242": false, "4242/4242/4242/a4242": false,
		"4242\u00e9424242424242": false, "4242\u0664424242424242": false,
		// Dates, with any time and beside an id: each would pass without its date.
		"ride-17-2006-01-02-15-01": false, "ride_17_2006_01_02_15_01": false, "17 2006/01/02 15.01": false,
		"17-20060102-150406": false, "2026-11-22 20:38:09": false, "1-2026-11-22T20:38:09.123456700Z": false,
		"20261122T203809.123456708Z": false,
		// What only looks like one, and card numbers beside one. A card number may end with a year, or a year and
		// a month, and an expiry follow.
		"17-2006-21-02-15-07": true, "17-2006-01-021-15-4": true, "2026-11-22-4242-4242-4242-4242": true,
		"2026-11-22 20:38:09 4242/4242/4242/4242": true, "4242-4242-4242-4242-2026-11-22": true,
		"4242-4242-4242-2006-12-30": true, "42424242-20181202": true, "42424242 20181202 123": true,
		"3614-4200-2020-04-12-30": true, "10011234 1234567": true, "2026-11-22 22:21:50:98:39:77:15:49": true,
		// Times and UUIDs.
		"2026-11-21T08:00:00": false, "2026-11-22T20:38:09.123456Z": false, "20261122T203809.123456": false,
		"42424242-4242-4242-4242-424242424242": false, "1f0a6a4e-6d1c-4a57-9f0a-0a3ad3f2b7c1": false,
		"ride/42424242-4242-4242-4242-424242424242/2": false, "42424242-4242-4242-4242-42424242424": true,
		"42424242-4242-4242-4242-4242424242424": true, "42424242-4242-4242-4242-424242424242,4242/4242/4242/4242": true,
	} {
		if got := payment.HoldsCardNumber(s); got != want {
			t.Errorf("%.60q: %t, want %t", s, got, want)
		}
	}
}

// No UUID is refused, in none of the forms in which one stands in a key.
func TestUUIDsAreNoCardNumbers(t *testing.T) {
	t.Parallel()
	for i := range 20_000 {
		h := sha256.Sum256([]byte(strconv.Itoa(i)))
		x := hex.EncodeToString(h[:16])
		key := fmt.Sprintf("ride-%d/%s-%s-4%s-8%s-%s:pay", i%1000, x[:8], x[8:12], x[13:16], x[17:20], x[20:])
		if i%2 == 1 {
			key = strings.ToUpper(key)
		}
		if payment.HoldsCardNumber(key) {
			t.Fatalf("%s is refused", key)
		}
	}
}

var uuids = regexp.MustCompile(`(^|[^0-9A-Za-z])[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}($|[^0-9A-Za-z])`)

var dates = regexp.MustCompile(`^(20[0-9]{2}(?:` +
	`[^0-9A-Za-z[:^ascii:]][01][0-9][^0-9A-Za-z[:^ascii:]][0-3][0-9](?:T[0-2][0-9](?::[0-5][0-9]){2})?|` +
	`([01][0-9][0-3][0-9])(?:T[0-2][0-9](?:[0-5][0-9]){2})?))(?:$|[^\pL\p{Nd}])`)

// holdsCardNumber is HoldsCardNumber by its definition: it looks at every part of s. It knows no UUIDs.
func holdsCardNumber(s string) bool {
	text := []rune(s)
	is := func(i int, what func(rune) bool) bool { return i >= 0 && i < len(text) && what(text[i]) }
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	type date struct{ head, end int }
	var found []date
	for i := range text {
		if d := dates.FindStringSubmatchIndex(string(text[i:])); d != nil && !is(i-1, word) {
			found = append(found, date{head: i + max(7, d[5]), end: i + d[3]})
		}
	}
	for i := range text {
		digits := ""
		for j := i; j < len(text) && len(digits) <= 19; j++ {
			if is(j, digit) {
				digits += string(text[j])
			} else if is(j, word) {
				break
			}
			whole := is(i, digit) && !is(i-1, digit) && is(j, digit) && !is(j+1, digit)
			dated := slices.ContainsFunc(found, func(d date) bool { return i < d.end && j >= d.head })
			if !whole || dated || len(digits) < 13 {
				continue
			}
			for _, cvc := range []string{"123", "1234"} {
				if _, err := payment.NewCard(digits, 1, 2030, cvc); err == nil {
					return true
				}
			}
		}
	}
	return false
}

func TestHoldsCardNumberByItsDefinition(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) // the same texts in each run
	const texts = 500
	parts := []string{
		"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "-", "/, ", "\u00a0", "x",
		"-2006-01-02-", "/2006.01.02/", "-20060102-", "-2006-01-02T15:04:05.",
	}
	found := 0
	for range texts {
		var s strings.Builder
		for range 10 + random.IntN(40) {
			s.WriteString(parts[random.IntN(len(parts))])
			if random.IntN(3) > 0 {
				s.WriteString(strconv.Itoa(random.IntN(10000)))
			}
		}
		want := holdsCardNumber(s.String())
		if got := payment.HoldsCardNumber(s.String()); got != want {
			t.Fatalf("%q: %t, want %t", s.String(), got, want)
		}
		if want {
			found++
		}
	}
	if found < texts/10 || found > texts*9/10 {
		t.Errorf("%d of %d texts hold a card number: the test proves little", found, texts)
	}
}

func FuzzHoldsCardNumber(f *testing.F) {
	for _, s := range []string{good, "4242/4242,4242 4242", "x\xff4-2", "1-2026-11-22T20:38:09.123456700Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 300 || uuids.MatchString(s) {
			return // the definition takes time in the square of the length, and knows no UUIDs
		}
		if got, want := payment.HoldsCardNumber(s), holdsCardNumber(s); got != want {
			t.Errorf("%q: %t, want %t", s, got, want)
		}
	})
}
