package events_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rowlock/rowlock/client/events"
	"github.com/rowlock/rowlock/client/internal/clienttest"
)

func TestMain(m *testing.M) { os.Exit(clienttest.Main(m, "EVENTS_URL")) }

// A worker gives a pending event its value; CreateAndWait waits for it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := events.New(os.Getenv("EVENTS_URL")) // such as http://rowlock-events
	if err != nil {
		fmt.Println(err)
		return
	}
	event, err := c.CreateAndWait(ctx)
	fmt.Println(event.ID, event.Pending(), err)
	// Output: 1 false <nil>
}
