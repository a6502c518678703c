package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Part is something that is started and stopped. Each function may be nil.
type Part struct {
	// Name names the part in log lines and errors.
	Name string

	// Start makes the part ready and returns: it opens, binds, migrates. The next part starts after it has returned nil.
	// Its context ends when the process is asked to stop, when another part fails, and when Start returns: anything that
	// lives longer belongs in Run.
	Start func(ctx context.Context) error

	// Run serves or works until the part is stopped. If it returns earlier, with or without an error, the part has failed
	// and everything is stopped. Its context ends after Stop has returned or, without Stop, when Stop would be called.
	Run func(ctx context.Context) error

	// Stop ends the part in an orderly way, which makes Run return. It may take until the deadline of its context, and
	// must return at once after that. It is called exactly once for every part whose Start returned nil, even if Run has
	// failed.
	Stop func(ctx context.Context) error
}

// errEnded is the failure of a part whose Run returned nil before it was stopped.
var errEnded = errors.New("ended unexpectedly")

// failure is the error of a part that ended before it was stopped.
type failure struct {
	of  *running
	err error
}

func (f *failure) Error() string { return f.of.part.Name + ": " + f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// running is a part whose Start has returned nil.
type running struct {
	part   Part
	cancel context.CancelFunc // ends the context of Run
	ended  chan struct{}      // closed when Run has returned
	err    error              // returned by Run; valid when ended is closed
}

// launch starts the part's Run, if it has one. When Run returns, launch's goroutine calls fail.
func launch(ctx context.Context, part Part, fail context.CancelCauseFunc) *running {
	// The context of Run must not end with the request to stop: the part works until its own Stop.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{part: part, cancel: cancel, ended: make(chan struct{})}
	if part.Run == nil {
		close(r.ended)
		return r
	}
	go func() {
		r.err = part.Run(runCtx)
		close(r.ended)
		fail(&failure{of: r, err: cmp.Or(r.err, errEnded)}) // no effect once the stop has begun
	}()
	return r
}

// stop calls Stop, ends Run's context and waits until Run has returned or hard ends. hard outlives ctx, the context of
// Stop. It returns the errors of both, but not Run's if that is the reported failure.
func (r *running) stop(ctx, hard context.Context, reported *failure) error {
	done := make(chan error, 1)
	go func() {
		var err error
		if r.part.Stop != nil {
			err = r.part.Stop(ctx)
		}

		r.cancel()
		<-r.ended

		// A part that was asked to end may return context.Canceled.
		known := errors.Is(r.err, context.Canceled) || (reported != nil && reported.of == r)
		if !known {
			err = errors.Join(r.err, err)
		}
		done <- err
	}()

	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w", r.part.Name, err)
		}
		return nil
	case <-hard.Done():
		r.cancel()
		return fmt.Errorf("%s: did not stop in time: %w", r.part.Name, context.Cause(hard))
	}
}
