package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/platform/lifecycle"
)

// The first time comes early, the others at the interval, half of it more or less, until the context ends.
func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		last, times := time.Now(), 0
		err := lifecycle.Every(time.Minute, time.Hour, func(context.Context) {
			wait, about := time.Since(last), time.Hour
			if times == 0 {
				about = time.Minute
			}
			if wait < about/2 || wait >= about*3/2 {
				t.Errorf("call %d came after %s", times, wait)
			}
			last = time.Now()
			if times++; times == 20 {
				cancel()
			}
		})(ctx)
		if err != nil || times != 20 {
			t.Errorf("%d calls, %v", times, err)
		}
	})
}
