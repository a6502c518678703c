package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/platform/bulkhead"
)

// While one caller of a key is inside, another caller of that key waits for its turn, and
// callers of other keys pass.
func ExampleBulkhead_Do() {
	b := bulkhead.New[string](2, nil)
	ctx := context.Background()
	err := b.Do(ctx, "pot 1", time.Second, func() error {
		other := b.Do(ctx, "pot 2", time.Second, func() error { return nil })
		same := b.Do(ctx, "pot 1", time.Millisecond, func() error { return nil })
		fmt.Println(other, errors.Is(same, bulkhead.ErrBusy))
		return nil
	})
	fmt.Println(err)
	// Output:
	// <nil> true
	// <nil>
}
