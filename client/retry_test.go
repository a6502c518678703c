package rowlock_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
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
var (
	counted    = answer{Status: 200, Body: `{"itemId":"a","value":8,"currentValue":8}`}
	overloaded = clienttest.Overloaded
	notApplied = answer{Status: 503, Body: `{"code":"NOT_APPLIED"}`, After: "3"}
	unknown    = clienttest.OutcomeUnknown
	bug        = answer{Status: 500, Body: `{"code":"INTERNAL"}`}
	missing    = answer{Status: 404, Body: `{"code":"COUNT_NOT_FOUND"}`}
	noToken    = clienttest.Unauthenticated
	forbidden  = answer{Status: 403, Body: `{"code":"FORBIDDEN"}`}
	noKeys     = answer{Status: 501, Body: `{"code":"NOT_SUPPORTED"}`}
	gateway    = answer{Status: 502, Body: `upstream reset`}
	moved      = answer{Status: 301}
	lost       = clienttest.Lost
	refused    = clienttest.Refused
)

type answer = clienttest.Answer

// outcome is what a caller knows about its change.
type outcome string

const (
	settled outcome = "settled" // made, or refused
	notMade outcome = "not applied"
	unsure  outcome = "unknown"
)

func outcomeOf(err error) outcome {
	switch {
	case rowlock.OutcomeUnknown(err):
		return unsure
	case rowlock.NotApplied(err):
		return notMade
	}
	return settled
}

// call opens a client of counts that sends to the script, and calls it.
type call func(t *testing.T, s *clienttest.Script) error

func increase(t *testing.T, s *clienttest.Script) error { t.Helper(); return with()(t, s) }

// with returns a call of Increase by a client with these options.
func with(options ...rowlock.Option) call {
	return func(t *testing.T, s *clienttest.Script) error {
		t.Helper()
		_, err := openScript(t, s, options...).Increase(t.Context(), "a", 1)
		return err
	}
}

func withKey(key string) call {
	return func(t *testing.T, s *clienttest.Script) error {
		t.Helper()
		_, err := openScript(t, s).Increase(t.Context(), "a", 1, counts.WithKey(key))
		return err
	}
}

func get(t *testing.T, s *clienttest.Script) error {
	t.Helper()
	_, err := openScript(t, s).Get(t.Context(), "a")
	return err
}

func remove(t *testing.T, s *clienttest.Script) error {
	t.Helper()
	return openScript(t, s).Delete(t.Context(), "a")
}

func reset(t *testing.T, s *clienttest.Script) error {
	t.Helper()
	return openScript(t, s).Reset(t.Context(), "a")
}

// What is repeated, how often, and what the caller is told in the end.
func TestRetries(t *testing.T) {
	t.Parallel()
	const most = 8
	once, badToken := with(rowlock.WithoutRetries()), with(rowlock.WithToken("a\n"))
	longWait := answer{Status: 503, Body: overloaded.Body, After: "31"}
	for name, tc := range map[string]struct {
		call    call
		answers []answer
		sent    int
		code    error // nil for success
		outcome outcome
	}{
		"overloaded":                        {increase, []answer{overloaded, overloaded, counted}, 3, nil, settled},
		"refused connections":               {remove, []answer{refused, refused, counted}, 3, nil, settled},
		"overloaded for good":               {increase, []answer{overloaded}, most, rowlock.ErrOverloaded, notMade},
		"once":                              {once, []answer{overloaded}, 1, rowlock.ErrOverloaded, notMade},
		"lost":                              {increase, []answer{lost, lost, counted}, 3, nil, settled},
		"lost without a body":               {reset, []answer{lost, counted}, 2, nil, settled},
		"lost for good":                     {increase, []answer{lost}, most, rowlock.ErrAnswerLost, unsure},
		"outcome unknown":                   {increase, []answer{unknown, counted}, 2, nil, settled},
		"a proxy's error":                   {increase, []answer{gateway, counted}, 2, nil, settled},
		"lost without a key":                {with(rowlock.WithoutKeys()), []answer{lost}, 1, rowlock.ErrAnswerLost, unsure},
		"lost where no key is taken":        {remove, []answer{lost}, 1, rowlock.ErrAnswerLost, unsure},
		"not applied without a key":         {remove, []answer{overloaded, lost}, 2, rowlock.ErrAnswerLost, unsure},
		"a lost read":                       {get, []answer{lost, unknown, counted}, 3, nil, settled},
		"a token refused":                   {increase, []answer{noToken}, 1, rowlock.ErrUnauthenticated, settled},
		"a bug":                             {increase, []answer{bug}, 1, rowlock.ErrInternal, unsure},
		"a redirection":                     {get, []answer{moved}, 1, rowlock.ErrBadAnswer, notMade},
		"not supported":                     {increase, []answer{noKeys}, 1, counts.ErrNotSupported, settled},
		"lost, then refused":                {increase, []answer{lost, missing}, 2, counts.ErrNotFound, settled},
		"lost, then overloaded":             {increase, []answer{lost, overloaded}, most, rowlock.ErrAnswerLost, unsure},
		"lost, then gone":                   {increase, []answer{lost, refused}, most, rowlock.ErrAnswerLost, unsure},
		"lost, then the token refused":      {increase, []answer{lost, noToken}, 2, rowlock.ErrAnswerLost, unsure},
		"unknown, then forbidden":           {increase, []answer{unknown, forbidden}, 2, rowlock.ErrOutcomeUnknown, unsure},
		"a lost read, then unauthentic":     {get, []answer{lost, noToken}, 2, rowlock.ErrUnauthenticated, settled},
		"not applied, then not a caller":    {increase, []answer{overloaded, forbidden}, 2, rowlock.ErrForbidden, settled},
		"a wait of more than half a minute": {increase, []answer{longWait}, 1, rowlock.ErrOverloaded, notMade},
		"a key that cannot be sent":         {withKey("a\n"), []answer{counted}, 0, rowlock.ErrInvalidField, settled},
		"a token that cannot be sent":       {badToken, []answer{counted}, 0, rowlock.ErrUnauthenticated, settled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &clienttest.Script{Answers: tc.answers}
				err := tc.call(t, s)
				if tc.code == nil && err != nil || !errors.Is(err, tc.code) {
					t.Errorf("the call returned %v, want %v", err, tc.code)
				}
				if got := outcomeOf(err); got != tc.outcome {
					t.Errorf("the outcome is %s, want %s: %v", got, tc.outcome, err)
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

// A repeat waits as long as the service or a proxy asks for, and up to half of it more; otherwise pauses grow.
func TestPauses(t *testing.T) {
	t.Parallel()
	proxy := answer{Status: 503, Body: "upstream is away", After: "3"}
	for name, tc := range map[string]struct {
		answers    []answer
		from, upTo time.Duration
	}{
		"three seconds": {[]answer{notApplied, counted}, 3 * time.Second, 4500 * time.Millisecond},
		"a proxy's":     {[]answer{proxy, counted}, 3 * time.Second, 4500 * time.Millisecond},
		// 50, 100, 200, 400, 800, 1600 and 2000 ms, each half to one and a half times
		"growing": {[]answer{overloaded}, 2575 * time.Millisecond, 7725 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				_, err := openScript(t, &clienttest.Script{Answers: tc.answers}).Increase(t.Context(), "a", 1)
				if took := time.Since(begin); took < tc.from || took > tc.upTo {
					t.Errorf("the last attempt came after %s, want %s to %s: %v", took, tc.from, tc.upTo, err)
				}
			})
		})
	}
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

// The hook hears of each attempt that is repeated, before the pause, and not of the last one.
func TestAttemptHook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []answer
		heard   []rowlock.Code
	}{
		"applied":  {[]answer{counted}, nil},
		"refused":  {[]answer{missing}, nil},
		"repeated": {[]answer{lost, notApplied, counted}, []rowlock.Code{rowlock.ErrAnswerLost, rowlock.ErrNotApplied}},
		"in vain":  {[]answer{overloaded}, slices.Repeat([]rowlock.Code{rowlock.ErrOverloaded}, 7)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &clienttest.Script{Answers: tc.answers}
				var heard []rowlock.Code
				var pauses time.Duration
				begin := time.Now()
				_, err := openScript(t, s, rowlock.WithAttemptHook(func(ctx context.Context, a rowlock.Attempt) {
					if e, ok := errors.AsType[*rowlock.Error](a.Err); ok {
						heard = append(heard, e.Code)
					}
					if want := "POST /api/v1/counts/a%0A/increase"; a.Request != want {
						t.Errorf("it hears of %q, want %q", a.Request, want)
					}
					if a.Number != len(heard) || a.Number != len(s.Keys) {
						t.Errorf("attempt %d is number %d, and call %d of the hook", len(s.Keys), a.Number, len(heard))
					}
					if took := time.Since(begin); took != pauses {
						t.Errorf("attempt %d is heard of after %s, want %s", a.Number, took, pauses)
					}
					if ctx != t.Context() {
						t.Error("the context is not the call's")
					}
					pauses += a.Pause
				})).Increase(t.Context(), "a\n", 1)
				if !slices.Equal(heard, tc.heard) {
					t.Errorf("it hears of %q, want %q; the call returned %v", heard, tc.heard, err)
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
