package counts_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rowlock/rowlock/client/counts"
)

func Example() {
	service := serve(`{"itemId":"page-views","value":7}`)
	defer service.Close()
	c, err := counts.New(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	value, err := c.Increase(context.Background(), "page-views", 1)
	fmt.Println(value, err)
	// Output: 7 <nil>
}

// serve stands in for the service: it answers every request with body.
func serve(body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body)
	}))
}
