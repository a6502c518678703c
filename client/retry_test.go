package rowlock_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/client/internal/clienttest"
)

// openScript returns a client of counts that sends to the script.
func openScript(t *testing.T, s *clienttest.Script, more ...rowlock.Option) *counts.Client {
	t.Helper()
	c, err := counts.New("http://counts", append(more, s.Option())...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What a service or a network answers.
//
//nolint:gochecknoglobals // they are never assigned to
var (
	counted    = answer{Status: 200, Body: `{"itemId":"a","value":8,"currentValue":8}`}
	overloaded = clienttest.Overloaded
	notApplied = answer{Status: 503, Body: `{"code":"NOT_APPLIED"}`, After: "3"}
	unknown    = clienttest.OutcomeUnknown
	bug        = answer{Status: 500, Body: `{"code":"INTERNAL"}`}
	missing    = answer{Status: 404, Body: `{"code":"COUNT_NOT_FOUND"}`}
	noToken    = clienttest.Unauthenticated
	forbidden  = answer{Status: 403, Body: `{"code":"FORBIDDEN"}`}
	gateway    = answer{Status: 502, Body: `upstream reset`}
	moved      = answer{Status: 301}
	lost       = clienttest.Lost
	refused    = clienttest.Refused
)

type answer = clienttest.Answer

// What is repeated, how often, and what the caller is told in the end.
func TestRetries(t *testing.T) {
	t.Parallel()
	const most = 8
	increase := func(ctx context.Context, c *counts.Client) error { _, err := c.Increase(ctx, "a", 1); return err }
	get := func(ctx context.Context, c *counts.Client) error { _, err := c.Get(ctx, "a"); return err }
	remove := func(ctx context.Context, c *counts.Client) error { return c.Delete(ctx, "a") }
	reset := func(ctx context.Context, c *counts.Client) error { return c.Reset(ctx, "a") }
	for name, tc := range map[string]struct {
		call                func(context.Context, *counts.Client) error
		option              rowlock.Option
		answers             []answer
		sent                int
		code                error // nil for success
		notApplied, unknown bool
	}{
		"overloaded": {
			increase, nil, []answer{overloaded, overloaded, counted}, 3, nil, false, false,
		},
		"refused connections": {
			remove, nil, []answer{refused, refused, counted}, 3, nil, false, false,
		},
		"overloaded for good": {
			increase, nil, []answer{overloaded}, most, rowlock.ErrOverloaded, true, false,
		},
		"once": {
			increase, rowlock.WithoutRetries(), []answer{overloaded}, 1, rowlock.ErrOverloaded, true, false,
		},
		"lost": {
			increase, nil, []answer{lost, lost, counted}, 3, nil, false, false,
		},
		"lost without a body": {reset, nil, []answer{lost, counted}, 2, nil, false, false},
		"lost for good": {
			increase, nil, []answer{lost}, most, rowlock.ErrAnswerLost, false, true,
		},
		"outcome unknown": {
			increase, nil, []answer{unknown, counted}, 2, nil, false, false,
		},
		"a proxy's error": {
			increase, nil, []answer{gateway, counted}, 2, nil, false, false,
		},
		"lost without a key": {
			increase, rowlock.WithoutKeys(), []answer{lost}, 1, rowlock.ErrAnswerLost, false, true,
		},
		"lost where no key is taken": {
			remove, nil, []answer{lost}, 1, rowlock.ErrAnswerLost, false, true,
		},
		"not applied without a key": {
			remove, nil, []answer{overloaded, lost}, 2, rowlock.ErrAnswerLost, false, true,
		},
		"a lost read": {
			get, nil, []answer{lost, unknown, counted}, 3, nil, false, false,
		},
		"a refusal": {
			increase, nil, []answer{missing}, 1, counts.ErrNotFound, false, false,
		},
		"a token refused": {
			increase, nil, []answer{noToken}, 1, rowlock.ErrUnauthenticated, false, false,
		},
		"a caller refused": {
			increase, nil, []answer{forbidden}, 1, rowlock.ErrForbidden, false, false,
		},
		"a bug": {
			increase, nil, []answer{bug}, 1, rowlock.ErrInternal, false, true,
		},
		"a redirection": {
			get, nil, []answer{moved}, 1, rowlock.ErrBadAnswer, true, false,
		},
		"lost, then refused": {
			increase, nil, []answer{lost, missing}, 2, counts.ErrNotFound, false, false,
		},
		"lost, then overloaded": {
			increase, nil, []answer{lost, overloaded}, most, rowlock.ErrAnswerLost, false, true,
		},
		"lost, then gone": {
			increase, nil, []answer{lost, refused}, most, rowlock.ErrAnswerLost, false, true,
		},
		"lost, then the token refused": {
			increase, nil, []answer{lost, noToken}, 2, rowlock.ErrAnswerLost, false, true,
		},
		"unknown, then forbidden": {
			increase, nil, []answer{unknown, forbidden}, 2, rowlock.ErrOutcomeUnknown, false, true,
		},
		"a lost read, then unauthentic": {
			get, nil, []answer{lost, noToken}, 2, rowlock.ErrUnauthenticated, false, false,
		},
		"not applied, then not a caller": {
			increase, nil, []answer{overloaded, forbidden}, 2, rowlock.ErrForbidden, false, false,
		},
		"a longer wait than half a minute": {
			increase, nil, []answer{{Status: 503, Body: overloaded.Body, After: "31"}}, 1, rowlock.ErrOverloaded, true, false,
		},
		"a key that cannot be sent": {
			func(ctx context.Context, c *counts.Client) error {
				_, err := c.Increase(ctx, "a", 1, counts.WithKey("a\n"))
				return err
			}, nil, []answer{counted}, 0, rowlock.ErrInvalidField, false, false,
		},
		"a token that cannot be sent": {
			increase, rowlock.WithToken("a\n"), []answer{counted}, 0, rowlock.ErrUnauthenticated, false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &clienttest.Script{Answers: tc.answers}
				var options []rowlock.Option
				if tc.option != nil {
					options = append(options, tc.option)
				}
				err := tc.call(t.Context(), openScript(t, s, options...))
				if tc.code == nil && err != nil || !errors.Is(err, tc.code) {
					t.Errorf("the call returned %v, want %v", err, tc.code)
				}
				if rowlock.NotApplied(err) != tc.notApplied || rowlock.OutcomeUnknown(err) != tc.unknown {
					t.Errorf("not applied %t, unknown %t: %v", rowlock.NotApplied(err), rowlock.OutcomeUnknown(err), err)
				}
				if len(s.Keys) != tc.sent {
					t.Errorf("it was sent %d times, want %d", len(s.Keys), tc.sent)
				}
				for i := range s.Keys {
					if s.Keys[i] != s.Keys[0] || s.Bodies[i] != s.Bodies[0] {
						t.Errorf("attempt %d has key %q and body %q, the first one %q and %q",
							i+1, s.Keys[i], s.Bodies[i], s.Keys[0], s.Bodies[0])
					}
				}
			})
		})
	}
}

// A repeat waits as long as the service asks for, and up to half of it more; otherwise pauses grow.
func TestPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c := openScript(t, &clienttest.Script{Answers: []answer{notApplied, counted}})
		if _, err := c.Increase(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 3*time.Second || took > 4500*time.Millisecond {
			t.Errorf("a repeat after three seconds came after %s", took)
		}
		begin = time.Now()
		proxy := answer{Status: 503, Body: "upstream is away", After: "3"}
		if _, err := openScript(t, &clienttest.Script{Answers: []answer{proxy, counted}}).Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 3*time.Second || took > 4500*time.Millisecond {
			t.Errorf("a repeat after a proxy's three seconds came after %s", took)
		}
		begin = time.Now()
		_, err := openScript(t, &clienttest.Script{Answers: []answer{overloaded}}).Increase(t.Context(), "a", 1)
		// 50, 100, 200, 400, 800, 1600 and 2000 ms, each half to one and a half times
		if took := time.Since(begin); took < 2575*time.Millisecond || took > 7725*time.Millisecond {
			t.Errorf("the last attempt came after %s: %v", took, err)
		}
	})
}

// A change whose outcome is open is not repeated when its key may be forgotten; one that was not applied is.
func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first answer
		sent  int
		code  error
	}{
		"lost":        {lost, 1, rowlock.ErrAnswerLost},
		"not applied": {notApplied, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &clienttest.Script{Answers: []answer{tc.first, counted}}
				slow := roundTrip(func(req *http.Request) (*http.Response, error) {
					time.Sleep(time.Minute)
					return s.RoundTrip(req)
				})
				c, err := counts.New("http://counts", rowlock.WithHTTPClient(&http.Client{Transport: slow}))
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				_, err = c.Increase(t.Context(), "a", 1)
				if took := time.Since(begin); tc.code != nil && took > time.Minute {
					t.Errorf("it waits for %s to repeat nothing", took-time.Minute)
				}
				if len(s.Keys) != tc.sent || tc.code == nil && err != nil || !errors.Is(err, tc.code) {
					t.Errorf("sent %d times, want %d: %v", len(s.Keys), tc.sent, err)
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A pause is not begun that the deadline would end, and one that the caller ends is told.
func TestContextsEndPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &clienttest.Script{Answers: []answer{notApplied}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := openScript(t, s).Increase(ctx, "a", 1)
		if took := time.Since(begin); took != 0 || !rowlock.NotApplied(err) || len(s.Keys) != 1 {
			t.Errorf("with a deadline before the repeat: %d attempts, %s, %v", len(s.Keys), took, err)
		}

		why := errors.New("the user has gone")
		canceled, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { end(why) })
		_, err = openScript(t, s).Increase(canceled, "a", 1)
		if took := time.Since(begin); took != time.Second || !errors.Is(err, why) || !rowlock.NotApplied(err) ||
			!errors.Is(err, rowlock.ErrNotApplied) {
			t.Errorf("canceled after a second: %s, %v", took, err)
		}
	})
}
