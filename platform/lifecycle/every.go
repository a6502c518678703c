package lifecycle

import (
	"context"
	"math/rand/v2"
	"time"
)

// Every returns the Run of a part that calls work at the interval until its context ends: half of the interval more or
// less, so that replicas which started together do not stay together. The first time comes after first, or the interval
// where that is shorter.
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
