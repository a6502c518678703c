package lifecycle

import (
	"context"
	"errors"
	"fmt"
)

// Part is one thing that is started and stopped. Each function may be nil.
type Part struct {
	// Name is what log lines and errors call the part.
	Name string

	// Start makes the part ready and returns: it opens, binds, migrates. The
	// next part starts when it has returned nil. Its context ends when the
	// process is asked to stop, when another part fails, and when Start
	// returns: what lives longer belongs into Run.
	Start func(ctx context.Context) error

	// Run is the life of the part: it serves or works until it is stopped.
	// Before that it must not return; if it does, with or without an error,
	// the part has failed and everything is stopped. Its context ends when
	// Stop has returned, or, for a part without Stop, in its place.
	Run func(ctx context.Context) error

	// Stop ends the part in an orderly way, which makes Run return. It may take
	// until the deadline of its context; when that has passed it must let go at
	// once. It is called exactly once for every part whose Start returned nil,
	// also when Run has failed.
	Stop func(ctx context.Context) error
}

// errEnded is the failure of a part whose Run returned nil before it was stopped.
var errEnded = errors.New("ended by itself")

// failure is the end of a part that was not asked to end.
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
	err    error              // what Run returned; to be read only when ended is closed
}

// launch begins the part's Run, if there is one, and calls fail when it returns.
func launch(ctx context.Context, part Part, fail context.CancelCauseFunc) *running {
	// The context of Run must not end with the request to stop: the part is to
	// work until it is its turn.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{part: part, cancel: cancel, ended: make(chan struct{})}
	if part.Run == nil {
		close(r.ended)
		return r
	}
	go func() {
		r.err = part.Run(runCtx)
		close(r.ended)
		err := r.err
		if err == nil {
			err = errEnded
		}
		fail(&failure{of: r, err: err}) // changes nothing when the end has begun already
	}()
	return r
}

// stop ends the part: Stop, the end of Run's context, the return of Run. It
// waits for it until ctx ends and then, for whatever only needs closing, until
// hard ends. What it returns includes an error that Run ended with, unless that
// is the reported one.
func (r *running) stop(ctx, hard context.Context, reported *failure) error {
	done := make(chan error, 1)
	go func() {
		var err error
		if r.part.Stop != nil {
			err = r.part.Stop(ctx)
		}
		r.cancel()
		<-r.ended
		// A part that was asked to end may well say that it was cancelled.
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
