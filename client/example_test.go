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

func Example() {
	// In a cluster: http://rowlock-counts.
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"OVERLOADED","detail":"Too many requests are in flight."}`)
	}))
	defer service.Close()

	c, err := counts.New(service.URL, rowlock.WithHTTPClient(&http.Client{Timeout: 15 * time.Second}))
	if err != nil {
		fmt.Println("the address is wrong:", err)
		return
	}
	value, err := c.Increase(context.Background(), "page-views", 1)
	switch {
	case err == nil:
		fmt.Println("the new value is", value)
	case errors.Is(err, counts.ErrNotFound):
		fmt.Println("create the counter first")
	case rowlock.NotApplied(err):
		fmt.Println("nothing was counted, try again:", err)
	case rowlock.OutcomeUnknown(err):
		fmt.Println("it may have been counted, a repeat may count twice:", err)
	}
	// Output: nothing was counted, try again: OVERLOADED (503): Too many requests are in flight.
}
