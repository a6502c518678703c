package chassis

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/platform/groupcommit"
)

// Each error of group commit has an answer, which says whether the request was applied; others are none of its
// business.
func TestGroupProblem(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		groupcommit.ErrQueueFull: "OVERLOADED",
		groupcommit.ErrLocked:    "NOT_APPLIED",
		groupcommit.ErrClosed:    "NOT_APPLIED",
		groupcommit.ErrNoSlot:    "NOT_APPLIED",
		groupcommit.ErrLeft:      "NOT_APPLIED",
		groupcommit.ErrUnknown:   "OUTCOME_UNKNOWN",
	} {
		p := groupProblem(errors.Join(fmt.Errorf("a group: %w", err), context.Canceled))
		if p == nil || p.Kind().Code() != want {
			t.Errorf("%v: %v, want %s", err, p, want)
		}
	}
	if p := groupProblem(errors.New("another")); p != nil {
		t.Errorf("another error is %v", p)
	}
}
