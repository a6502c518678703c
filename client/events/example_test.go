package events_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rowlock/rowlock/client/events"
)

func Example() {
	service := serve(`{"id":8,"value":null}`)
	defer service.Close()
	c, err := events.New(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	id, err := c.CreateAsync(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	event, err := c.Get(ctx, id)
	fmt.Println(event.ID, event.Pending(), err)
	// Output: 8 true <nil>
}

// serve stands in for the service: it answers every request with body.
func serve(body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body)
	}))
}
