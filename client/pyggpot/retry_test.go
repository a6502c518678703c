package pyggpot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/clienttest"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
)

// Changes are repeated when they are surely not applied, and reads also when their answer is lost. The hook hears of
// each repeat.
func TestRetries(t *testing.T) {
	t.Parallel()
	type answer = clienttest.Answer
	lost := clienttest.Lost
	locked := answer{Handler: failing(connect.CodeAborted, reason(pyggpot.ErrPotLocked),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})}
	notApplied := answer{Handler: failing(connect.CodeUnavailable, reason(rowlock.ErrNotApplied))}
	unknown := answer{Handler: failing(connect.CodeUnknown, reason(rowlock.ErrOutcomeUnknown))}
	exists := answer{Handler: failing(connect.CodeAlreadyExists, reason(pyggpot.ErrPotExists))}
	create := func(ctx context.Context, c *pyggpot.Client) error {
		_, err := c.Pot.CreatePot(ctx, connect.NewRequest(&pot.CreatePotRequest{PotName: "Piggy"}))
		return err
	}
	view := func(ctx context.Context, c *pyggpot.Client) error {
		_, err := c.Pot.ViewPot(ctx, connect.NewRequest(&pot.ViewPotRequest{PotId: 1}))
		return err
	}
	for name, tc := range map[string]struct {
		call    func(context.Context, *pyggpot.Client) error
		answers []answer
		sent    int
		code    error
	}{
		"not applied":     {create, []answer{locked, notApplied, exists}, 3, pyggpot.ErrPotExists},
		"locked for good": {create, []answer{locked}, 8, pyggpot.ErrPotLocked},
		"a lost change":   {create, []answer{lost, exists}, 1, rowlock.ErrAnswerLost},
		"outcome unknown": {create, []answer{unknown, exists}, 1, rowlock.ErrOutcomeUnknown},
		"a lost read":     {view, []answer{lost, unknown, exists}, 3, pyggpot.ErrPotExists},
		"a refused read":  {view, []answer{exists}, 1, pyggpot.ErrPotExists},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &clienttest.Script{Answers: tc.answers}
				heard := 0
				hook := rowlock.WithAttemptHook(func(_ context.Context, a rowlock.Attempt) {
					heard++
					if !strings.HasPrefix(a.Request, "POST /pyggpot.") {
						t.Errorf("the hook hears of %q", a.Request)
					}
				})
				c := pyggpot.New("http://pyggpot", s.Option(), rowlock.WithToken("secret"), hook)
				if err := tc.call(t.Context(), c); !errors.Is(err, tc.code) {
					t.Errorf("%v, want %v", err, tc.code)
				}
				if want := slices.Repeat([]string{"Bearer secret"}, tc.sent); !slices.Equal(s.Tokens, want) {
					t.Errorf("the requests have the tokens %q, want %q", s.Tokens, want)
				}
				if heard != tc.sent-1 {
					t.Errorf("the hook hears of %d attempts, want %d", heard, tc.sent-1)
				}
			})
		})
	}
}
