package counting_test

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

func ExampleService() {
	ctx := context.Background()
	counts := counting.Service{
		Repository: countingtest.NewMemory(), Replayed: func() { fmt.Println("repeated") }, Conflict: func() {},
	}

	_, err := counts.Initialize(ctx, counting.Key{}, "page-views", 0)
	fmt.Println("created:", err == nil)

	key := counting.Key{Value: "1f0a6a4e"}
	answer, err := counts.Increase(ctx, key, "page-views", 5)
	fmt.Println(answer.Values, answer.Replayed, err)
	answer, err = counts.Increase(ctx, key, "page-views", 5) // a repeat
	fmt.Println(answer.Values, answer.Replayed, err)

	_, err = counts.Increase(ctx, counting.Key{}, "no-such-item", 1)
	fmt.Println(err)
	// Output:
	// created: true
	// [5] false <nil>
	// repeated
	// [5] true <nil>
	// no count has this item id
}
