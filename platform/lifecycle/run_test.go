package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/lifecycle"
)

// journal records events in order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(event string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

// worker returns a part that runs until its context ends and records its steps.
func (j *journal) worker(name string) lifecycle.Part {
	return lifecycle.Part{
		Name:  name,
		Start: func(context.Context) error { j.add("start " + name); return nil },
		Run:   func(ctx context.Context) error { <-ctx.Done(); j.add("end " + name); return ctx.Err() },
		Stop:  func(context.Context) error { j.add("stop " + name); return nil },
	}
}

func expect(t *testing.T, j *journal, want ...string) {
	t.Helper()
	if got := j.all(); !slices.Equal(got, want) {
		t.Errorf("events\n got %q\nwant %q", got, want)
	}
}

const timeout = 20 * time.Second

// bubble runs a test with a fake clock and a context that ends after a minute.
func bubble(t *testing.T, test func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		test(ctx)
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

var errBoom = errors.New("boom")

func TestRunStartsInOrderAndStopsInReverse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Hour, func() { j.add("asked"); cancel(errors.New("terminated signal received")) })
		var out bytes.Buffer
		err := lifecycle.Run(ctx, slog.New(slog.NewTextHandler(&out, nil)), timeout, j.worker("db"), j.worker("api"))
		if err != nil {
			t.Errorf("Run: %v, want nil after an orderly end", err)
		}
		expect(t, j, "start db", "start api", "asked", "stop api", "end api", "stop db", "end db")
		if err := lifecycle.Run(ctx, quiet(), timeout, j.worker("late")); err != nil || len(j.all()) != 7 {
			t.Errorf("Run with a context that has ended: %v, %q", err, j.all())
		}
		for _, want := range []string{
			"msg=started ms=0", `msg=stopping reason="terminated signal received" within_ms=20000`, "msg=stopped ms=0",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, &out)
			}
		}
	})
}

func TestAFailedStartStopsWhatWasStarted(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context) {
		j := &journal{}
		bad := j.worker("bad")
		bad.Start = func(context.Context) error { return errBoom }
		err := lifecycle.Run(ctx, quiet(), timeout, j.worker("db"), bad, j.worker("api"))
		if !errors.Is(err, errBoom) || err.Error() != "bad: boom" {
			t.Errorf("Run: %v, want bad: boom", err)
		}
		expect(t, j, "start db", "stop db", "end db")
	})
}

func TestAPartThatEndsByItselfStopsTheRest(t *testing.T) {
	t.Parallel()
	for end, want := range map[error]string{
		errBoom: "bad: boom", nil: "bad: ended unexpectedly", context.Canceled: "bad: context canceled",
	} {
		bubble(t, func(ctx context.Context) {
			j := &journal{}
			bad := j.worker("bad")
			bad.Run = func(context.Context) error { time.Sleep(time.Second); return end }
			err := lifecycle.Run(ctx, quiet(), timeout, j.worker("db"), bad, j.worker("api"))
			if text(err) != want {
				t.Errorf("Run: %v, want %q once", err, want)
			}
			expect(t, j, "start db", "start bad", "start api", "stop api", "end api", "stop bad", "stop db", "end db")
		})
	}
}

// A replica that waits for a lock in its migration must not go on when its probes have failed.
func TestAFailureCancelsAStart(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context) {
		bad := lifecycle.Part{Name: "bad", Run: func(context.Context) error { return errBoom }}
		slow := lifecycle.Part{Name: "slow", Start: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		if err := lifecycle.Run(ctx, quiet(), timeout, bad, slow); text(err) != "bad: boom" {
			t.Errorf("Run: %v, want bad: boom alone", err)
		}
	})
}

func TestBeingAskedToStopDuringAStart(t *testing.T) {
	t.Parallel()
	for want, start := range map[string]func(ctx context.Context) error{
		"":           func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"slow: boom": func(ctx context.Context) error { <-ctx.Done(); return errBoom },
		"slow: the start went on for 20s after it was cancelled": func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		},
	} {
		bubble(t, func(ctx context.Context) {
			j := &journal{}
			err := lifecycle.Run(ctx, quiet(), timeout, j.worker("db"),
				lifecycle.Part{Name: "slow", Start: start}, j.worker("api"))
			if text(err) != want {
				t.Errorf("Run: %v, want %q", err, want)
			}
			expect(t, j, "start db", "stop db", "end db")
			time.Sleep(2 * time.Hour) // lets the last one end inside the bubble
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// One deadline holds for all parts; a part that hangs is named and left, and what only needs closing is still closed.
func TestAPartThatDoesNotStop(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context) {
		j := &journal{}
		db := j.worker("db")
		db.Stop = func(ctx context.Context) error { j.add("stop db: " + text(ctx.Err())); return nil }
		slow := lifecycle.Part{Name: "slow", Stop: func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			return context.Cause(ctx)
		}}
		begin := time.Now()
		err := lifecycle.Run(ctx, quiet(), timeout, db, slow)
		if want := "slow: the shutdown timeout of 20s is over: context deadline exceeded"; text(err) != want {
			t.Errorf("Run: %v, want %s", err, want)
		}
		if took := time.Since(begin); took != time.Minute+timeout+time.Millisecond {
			t.Errorf("Run took %s", took)
		}
		expect(t, j, "start db", "stop db: context deadline exceeded", "end db")
	})
}

func TestPartsThatHang(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context) {
		release := make(chan struct{})
		hang := func(context.Context) error { <-release; return nil }
		begin := time.Now()
		err := lifecycle.Run(ctx, quiet(), timeout,
			lifecycle.Part{Name: "one", Stop: hang}, lifecycle.Part{Name: "two", Run: hang},
			lifecycle.Part{Name: "three", Stop: hang})
		if took := time.Since(begin); took != time.Minute+timeout+time.Second {
			t.Errorf("Run took %s, want the timeout and one second for all of them", took)
		}
		for _, name := range []string{"one", "two", "three"} {
			if !strings.Contains(text(err), name+": did not stop in time") {
				t.Errorf("%s is not named in %v", name, err)
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is no deadline", err)
		}
		close(release)
	})
}

// Errors of Run and Stop are returned, the cause first.
func TestAllErrorsAreReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := lifecycle.Part{Name: "first", Run: func(context.Context) error { time.Sleep(time.Second); return errBoom }}
		second := lifecycle.Part{
			Name: "second",
			Run:  func(ctx context.Context) error { <-ctx.Done(); return errors.New("torn") },
			Stop: func(context.Context) error { return errors.New("stuck") },
		}
		err := lifecycle.Run(t.Context(), quiet(), timeout, first, second)
		if want := "first: boom\nsecond: torn\nstuck"; text(err) != want {
			t.Errorf("Run: %q, want %q", text(err), want)
		}
	})
}
