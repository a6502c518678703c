package payments_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rowlock/rowlock/client/payments"
)

func Example() {
	service := serve(`{"id":"0198f3c2-0000-7000-8000-000000000001","status":"SUCCEEDED","amount":1250,"currency":"EUR"}`)
	defer service.Close()
	c, err := payments.New(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The caller makes up a key for each payment and stores it, so that a repeat has the same one.
	made, replayed, err := c.Create(context.Background(), "ride-1-fare", payments.NewPayment{
		RideID: "ride-1", RiderID: "rider-1", Amount: 1250, Currency: "EUR",
		Card: payments.NewCard{Number: "4242424242424242", ExpMonth: 12, ExpYear: 2030, CVC: "123"},
	})
	fmt.Println(made.Status, made.Amount, replayed, err)
	// Output: SUCCEEDED 1250 false <nil>
}

// serve stands in for the service: it answers every request with body.
func serve(body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body)
	}))
}
