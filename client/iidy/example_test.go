package iidy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/client/internal/clienttest"
)

func TestMain(m *testing.M) { os.Exit(clienttest.Main(m, "IIDY_URL")) }

// Workers share a list: each item is claimed by one of them.
func Example() {
	ctx := context.Background()
	c, err := iidy.New(os.Getenv("IIDY_URL")) // such as http://rowlock-iidy
	if err != nil {
		fmt.Println(err)
		return
	}
	list := c.List("downloads")
	if _, err := list.Add(ctx, "a.txt", "b.txt"); err != nil {
		fmt.Println(err)
		return
	}
	for task, err := range list.Work(ctx, 100, time.Minute) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("download", task.Item, task.Done(ctx))
	}
	// Output:
	// download a.txt <nil>
	// download b.txt <nil>
}

// What fails is tried again when its lease has run out, and abandoned after five attempts.
func ExampleList_Work() {
	ctx := context.Background()
	c, err := iidy.New(os.Getenv("IIDY_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	list := c.List("uploads")
	if _, err := list.Add(ctx, "missing.txt"); err != nil {
		fmt.Println(err)
		return
	}
	upload := func(context.Context, string) error { return errors.New("there is no such file") }
	for task, err := range list.Work(ctx, 100, time.Minute) {
		if err != nil {
			fmt.Println(err) // the service does not answer, or the claim was lost
			return
		}
		finish := task.Done
		if err := upload(task.Context(), task.Item); err != nil {
			fmt.Println(task.Item, "failed:", err)
			finish = task.Fail
		}
		if err := finish(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	for entry, err := range list.Items(ctx) {
		fmt.Println(entry.Item, entry.Attempts, err)
	}
	abandoned, err := list.DeleteAttempted(ctx, 5)
	fmt.Println(abandoned, err)
	// Output:
	// missing.txt failed: there is no such file
	// missing.txt 1 <nil>
	// 0 <nil>
}
