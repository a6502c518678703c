package guest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errSilent means that the work was given up, and goes on by itself: the server says nothing.
var errSilent = errors.New("the server does not answer")

// farewell is how long work may take to notice that its context has ended: the server
// is asked to cancel the statement, and says that it did.
const farewell = 3 * time.Second

// patiently does something with a server that may fall silent, of which the driver
// hears nothing: it waits no longer than a moment after ctx's end.
func patiently(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(farewell):
		return fmt.Errorf("%w: %w", errSilent, context.Cause(ctx))
	}
}
