package lifecycle

import (
	"context"
	"math/rand/v2"
	"time"
)

// Every returns the Run of a part that calls work at the interval until its context ends. It varies each wait by up to
// half, so that replicas which started together drift apart. The first wait is first, or the interval if that is
// shorter.
func Every(first, interval time.Duration, work func(ctx context.Context)) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for wait := min(first, interval); ; wait = interval {
			select {
			case <-time.After(wait/2 + rand.N(wait)):
				work(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	}
}
