package counts_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/rowlock/rowlock/client/counts"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := counts.New(os.Getenv("COUNTS_URL")) // such as http://rowlock-counts
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Create(ctx, "page-views", 41); err != nil {
		fmt.Println(err)
		return
	}
	value, err := c.Increase(ctx, "page-views", 1)
	fmt.Println(value, err)
	// Output: 42 <nil>
}

// A key of the caller's makes a change repeatable by another process, or after a restart.
func ExampleWithKey() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := counts.New(os.Getenv("COUNTS_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Create(ctx, "visits", 0); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		var replayed bool
		value, err := c.Increase(ctx, "visits", 1, counts.WithKey("visit-1f0a6a4e"), counts.ReportReplayed(&replayed))
		fmt.Println(value, replayed, err)
	}
	// Output:
	// 1 false <nil>
	// 1 true <nil>
}

// Many changes are applied at once, all or none.
func ExampleClient_Apply() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := counts.New(os.Getenv("COUNTS_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	changes := []counts.Change{{ID: "likes/1", Amount: 2}, {ID: "likes/2", Amount: 5}}
	values, err := c.Apply(ctx, changes, counts.CreateMissing())
	fmt.Println(values, err)
	for count, err := range c.All(ctx, "likes/") {
		fmt.Println(count.ID, count.Value, err)
	}
	// Output:
	// [2 5] <nil>
	// likes/1 2 <nil>
	// likes/2 5 <nil>
}
