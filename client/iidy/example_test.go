package iidy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rowlock/rowlock/client/iidy"
)

// A worker claims items, and deletes those that are done.
func Example() {
	service := serve(`{"claim":"0198f3c2-0000-4000-8000-000000000001","lease_until":"2026-11-21T08:00:00.123456Z",` +
		`"listentries":[{"item":"a.txt","attempts":2}],"deleted":1}`)
	defer service.Close()
	c, err := iidy.New(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, list := context.Background(), c.List("downloads")
	claim, err := list.Claim(ctx, 100, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, entry := range claim.Entries {
		deleted, err := list.DeleteClaimed(ctx, claim.ID, entry.Item)
		fmt.Println(entry.Item, entry.Attempts, deleted, err)
	}
	// Output: a.txt 2 1 <nil>
}

// serve stands in for the service: it answers every request with body.
func serve(body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body)
	}))
}
