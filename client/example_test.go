package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
)

// serve stands in for a service, in a cluster http://rowlock-counts for example: it answers every request alike.
func serve(status int, body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
}

func Example() {
	service := serve(http.StatusServiceUnavailable, `{"code":"OVERLOADED","detail":"Too many requests are in flight."}`)
	defer service.Close()

	c, err := counts.New(service.URL, rowlock.WithHTTPClient(&http.Client{Timeout: 15 * time.Second}))
	if err != nil {
		fmt.Println("the address is wrong:", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	value, err := c.Increase(ctx, "page-views", 1)
	switch {
	case err == nil:
		fmt.Println("the new value is", value)
	case errors.Is(err, counts.ErrNotFound):
		fmt.Println("create the counter first")
	case rowlock.NotApplied(err):
		fmt.Println("nothing was counted, try again:", err)
	case rowlock.OutcomeUnknown(err):
		fmt.Println("it may have been counted:", err)
	}
	// Output: nothing was counted, try again: OVERLOADED (503): Too many requests are in flight.
}
