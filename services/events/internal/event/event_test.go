package event_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]event.ID{"1": 1, "10": 10, "9223372036854775807": 9223372036854775807} {
		if got, err := event.ParseID(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "0x1", "abc", "1_000", "9223372036854775808", "\x00", "١",
	} {
		if got, err := event.ParseID(text); !errors.Is(err, event.ErrInvalidID) {
			t.Errorf("%q: %d, %v, want ErrInvalidID", text, got, err)
		}
	}
}

func TestRandomWord(t *testing.T) {
	t.Parallel()
	plain, seen := regexp.MustCompile(`^[a-z]{4,9}$`), make(map[string]bool)
	for range 100_000 {
		word := event.RandomWord()
		if !plain.MatchString(word) {
			t.Fatalf("%q", word)
		}
		seen[word] = true
	}
	// 100,000 draws from 3,900 words miss one with a chance of one in ten million.
	if len(seen) < 3800 || len(seen) > 4000 {
		t.Errorf("%d different words", len(seen))
	}
}
