package lifecycle_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock/platform/lifecycle"
)

// The listener stops first, while the database that it uses is still open.
func ExampleRun() {
	say := func(line string) func(context.Context) error {
		return func(context.Context) error { fmt.Println(line); return nil }
	}
	ctx, stop := context.WithCancel(context.Background())
	database := lifecycle.Part{Name: "database", Start: say("open"), Stop: say("close")}
	listener := lifecycle.Part{
		Name:  "listener",
		Start: say("bind"),
		Run: func(ctx context.Context) error {
			stop() // as SIGTERM does; a real listener serves until Stop
			<-ctx.Done()
			return nil
		},
		Stop: say("drain"),
	}
	err := lifecycle.Run(ctx, slog.New(slog.DiscardHandler), time.Second, database, listener)
	fmt.Println("error:", err)
	// Output:
	// open
	// bind
	// drain
	// close
	// error: <nil>
}
