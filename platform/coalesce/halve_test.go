package coalesce_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
)

// In a group of letters l is locked, b is bad, and u makes the outcome of its part unknown.
func TestHalve(t *testing.T) {
	t.Parallel()
	errUnknown := errors.New("unknown")
	many := strings.Repeat("l", 100)
	for letters, want := range map[string]string{
		"":          "",
		"abc":       "ok,bad,ok",
		"acdef":     "ok",
		"l":         "locked",
		"aclde":     "ok,ok,locked,ok,ok",
		"aclbde":    "ok,ok,locked,bad,ok,ok",
		"acude":     "unknown",
		"acldue":    "ok,ok,locked,unknown,unknown,unknown",
		many + "ac": "locked", // no waits are left
	} {
		waits := 0
		run := func(wait time.Duration, part []rune) ([]coalesce.Answer[rune], error) {
			if wait <= 0 {
				t.Errorf("a wait of %s", wait)
			}
			switch {
			case slices.Contains(part, 'l'):
				waits++
				return nil, coalesce.ErrLockWait
			case slices.Contains(part, 'u'):
				return nil, errUnknown
			case slices.Contains(part, 'b'):
				return nil, coalesce.ErrSplit
			}
			answers := make([]coalesce.Answer[rune], len(part))
			for i, r := range part {
				answers[i].Value = r
			}
			return answers, nil
		}
		group := []rune(letters)
		answers := coalesce.Halve(group, run)
		if len(answers) != len(group) || waits > 24 {
			t.Errorf("%s: %d answers, %d waits", letters, len(answers), waits)
			continue
		}
		wants := strings.Split(want, ",")
		for i, a := range answers {
			got := "ok"
			switch {
			case a.Locked:
				got = "locked"
			case errors.Is(a.Err, coalesce.ErrSplit):
				got = "bad"
			case a.Err != nil:
				got = "unknown"
			case a.Value != group[i]:
				got = "the answer of another request"
			}
			if as := wants[min(i, len(wants)-1)]; got != as {
				t.Errorf("%s: request %d: %s, want %s", letters, i, got, as)
			}
		}
	}
}
