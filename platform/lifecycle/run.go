package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// forcedStopGrace is how much longer than the shutdown timeout all parts together may take, so that parts which only
// need closing are still closed.
const forcedStopGrace = time.Second

// Run starts the parts in order and waits until ctx ends or a part fails. Then it stops the started parts in reverse
// order, within shutdownTimeout for all of them together. At that deadline the contexts of the stops end; one second
// later Run returns, even if a part still hangs.
//
// It returns nil if ctx ended and every part stopped without an error. Otherwise it returns all errors, each with its
// part's name and the cause first: a part failed, could not start, or did not stop. It logs the steps but not the
// errors: the caller reports those.
func Run(ctx context.Context, log *slog.Logger, shutdownTimeout time.Duration, parts ...Part) error {
	begin := time.Now()
	life, end := context.WithCancelCause(ctx) // ends with ctx or with the first part that fails
	defer end(nil)

	started, err := startAll(life, end, log, shutdownTimeout, parts)
	if err == nil && life.Err() == nil {
		log.InfoContext(ctx, "started", milliseconds("ms", time.Since(begin)))
	}
	if err != nil && errors.Is(err, life.Err()) {
		err = nil // a start that was cancelled is no failure
	}
	if err != nil {
		end(err)
	}
	<-life.Done()

	// The cause of the stop comes first among the errors.
	var failed *failure
	if errors.As(context.Cause(life), &failed) {
		err = errors.Join(failed, err)
	}
	reason := "failure"
	if err == nil {
		reason = context.Cause(life).Error()
	}
	log.InfoContext(ctx, "stopping", slog.String("reason", reason), milliseconds("within_ms", shutdownTimeout))

	begin = time.Now()
	err = errors.Join(err, stopAll(ctx, log, shutdownTimeout, started, failed))
	log.InfoContext(ctx, "stopped", milliseconds("ms", time.Since(begin)))
	return err
}

// milliseconds returns an attribute with d in milliseconds, with at most three decimals.
func milliseconds(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, float64(d.Microseconds())/1000)
}

// startAll starts the parts in order, until life ends or a part cannot start. It returns the started parts.
func startAll(
	life context.Context, end context.CancelCauseFunc, log *slog.Logger, cancelGrace time.Duration, parts []Part,
) ([]*running, error) {
	started := make([]*running, 0, len(parts))
	for _, part := range parts {
		select {
		case <-life.Done():
			return started, nil
		default:
		}

		if err := start(life, part, cancelGrace); err != nil {
			return started, fmt.Errorf("%s: %w", part.Name, err)
		}

		started = append(started, launch(life, part, end))
		log.DebugContext(life, "part started", slog.String("part", part.Name))
	}
	return started, nil
}

// start calls the part's Start. If life ends meanwhile, Start has cancelGrace to return: a part that ignores its
// context must not hold the process.
func start(life context.Context, part Part, cancelGrace time.Duration) error {
	if part.Start == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- part.Start(ctx) }()

	select {
	case err := <-done:
		return err
	case <-life.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(cancelGrace):
		return fmt.Errorf("the start went on for %s after it was cancelled", cancelGrace)
	}
}

// stopAll stops the parts in reverse order, within the timeout for all together. The stops' contexts have the values of
// ctx, but do not end with it.
func stopAll(
	ctx context.Context, log *slog.Logger, timeout time.Duration, started []*running, reported *failure,
) error {
	ctx = context.WithoutCancel(ctx)
	over := fmt.Errorf("the shutdown timeout of %s is over: %w", timeout, context.DeadlineExceeded)
	soft, cancelSoft := context.WithTimeoutCause(ctx, timeout, over)
	defer cancelSoft()
	hard, cancelHard := context.WithTimeoutCause(ctx, timeout+forcedStopGrace, over)
	defer cancelHard()

	var errs []error
	for _, r := range slices.Backward(started) {
		begin := time.Now()
		errs = append(errs, r.stop(soft, hard, reported))
		log.DebugContext(ctx, "part stopped", slog.String("part", r.part.Name), milliseconds("ms", time.Since(begin)))
	}
	return errors.Join(errs...)
}
