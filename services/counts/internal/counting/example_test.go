package counting_test

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

func ExampleService() {
	ctx := context.Background()
	counts := counting.NewService(countingtest.NewMemory())

	_, err := counts.Initialize(ctx, "page-views", 0)
	fmt.Println("created:", err == nil)

	value, err := counts.Increase(ctx, "page-views", 5)
	fmt.Println(value, err)

	_, err = counts.Increase(ctx, "no-such-item", 1)
	fmt.Println(err)
	// Output:
	// created: true
	// 5 <nil>
	// no count has this item id
}
