package pyggpot_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
)

// first sends the first requests to one handler after the other, nil for a lost answer, and the others to the last.
type first struct {
	handlers []http.Handler
	sent     int
	tokens   map[string]int
}

func (f *first) RoundTrip(req *http.Request) (*http.Response, error) {
	handler := f.handlers[min(f.sent, len(f.handlers)-1)]
	f.sent++
	f.tokens[req.Header.Get("Authorization")]++
	if handler == nil {
		return nil, io.ErrUnexpectedEOF
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, req)
	return recorder.Result(), nil
}

// Changes are repeated when they are surely not applied, and reads also when their answer is lost.
func TestRetries(t *testing.T) {
	t.Parallel()
	locked := failing(connect.CodeAborted, reason(pyggpot.ErrPotLocked),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	notApplied := failing(connect.CodeUnavailable, reason(rowlock.ErrNotApplied))
	unknown := failing(connect.CodeUnknown, reason(rowlock.ErrOutcomeUnknown))
	exists := failing(connect.CodeAlreadyExists, reason(pyggpot.ErrPotExists))
	create := func(ctx context.Context, c *pyggpot.Client) error {
		_, err := c.Pot.CreatePot(ctx, connect.NewRequest(&pot.CreatePotRequest{PotName: "Piggy"}))
		return err
	}
	view := func(ctx context.Context, c *pyggpot.Client) error {
		_, err := c.Pot.ViewPot(ctx, connect.NewRequest(&pot.ViewPotRequest{PotId: 1}))
		return err
	}
	for name, tc := range map[string]struct {
		call     func(context.Context, *pyggpot.Client) error
		handlers []http.Handler
		sent     int
		code     error
	}{
		"not applied":     {create, []http.Handler{locked, notApplied, exists}, 3, pyggpot.ErrPotExists},
		"locked for good": {create, []http.Handler{locked}, 8, pyggpot.ErrPotLocked},
		"a lost change":   {create, []http.Handler{nil, exists}, 1, rowlock.ErrAnswerLost},
		"outcome unknown": {create, []http.Handler{unknown, exists}, 1, rowlock.ErrOutcomeUnknown},
		"a lost read":     {view, []http.Handler{nil, unknown, exists}, 3, pyggpot.ErrPotExists},
		"a refused read":  {view, []http.Handler{exists}, 1, pyggpot.ErrPotExists},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &first{handlers: tc.handlers, tokens: map[string]int{}}
				c := pyggpot.New("http://pyggpot", rowlock.WithHTTPClient(&http.Client{Transport: f}), rowlock.WithToken("secret"))
				if err := tc.call(t.Context(), c); !errors.Is(err, tc.code) || f.sent != tc.sent {
					t.Errorf("sent %d times, want %d: %v", f.sent, tc.sent, err)
				}
				if f.tokens["Bearer secret"] != tc.sent {
					t.Errorf("the requests have the tokens %v", f.tokens)
				}
			})
		})
	}
}
