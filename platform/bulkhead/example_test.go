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
func ExampleBulkhead_Enter() {
	b := bulkhead.New[string](2, nil, nil)
	ctx := context.Background()
	inside, err := b.Enter(ctx, "pot 1", time.Second)
	other, otherErr := b.Enter(ctx, "pot 2", time.Second)
	_, sameErr := b.Enter(ctx, "pot 1", time.Millisecond)
	fmt.Println(err, otherErr, errors.Is(sameErr, bulkhead.ErrBusy))
	other.Leave(true)
	inside.Leave(true)
	// Output:
	// <nil> <nil> true
}
