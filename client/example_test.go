package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/client/events"
	"github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/client/payments"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
)

// serve stands in for a service, in a cluster http://rowlock-counts for example: it answers every request alike.
func serve(status int, body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
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

// A change with a key is repeated until it is answered, and counted once.
func Example_countsKey() {
	service := serve(http.StatusOK, `{"itemId":"page-views","value":8}`)
	defer service.Close()

	c, err := counts.New(service.URL)
	if err != nil {
		fmt.Println("the address is wrong:", err)
		return
	}
	const attempts = 5
	for range attempts {
		value, err := c.Increase(context.Background(), "page-views", 1, counts.WithKey("visit-1f0a6a4e"))
		if rowlock.NotApplied(err) || rowlock.OutcomeUnknown(err) {
			time.Sleep(time.Second)
			continue
		}
		fmt.Println(value, err)
		return
	}
	// Output: 8 <nil>
}

// The caller makes up a key for each payment and stores it, so that a repeat has the same one.
func Example_payments() {
	service := serve(http.StatusCreated,
		`{"id":"0198f3c2-0000-7000-8000-000000000001","status":"SUCCEEDED","amount":1250,"currency":"EUR"}`)
	defer service.Close()

	c, err := payments.New(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	made, replayed, err := c.Create(context.Background(), "ride-1-fare", payments.NewPayment{
		RideID: "ride-1", RiderID: "rider-1", Amount: 1250, Currency: "EUR",
		Card: payments.NewCard{Number: "4242424242424242", ExpMonth: 12, ExpYear: 2030, CVC: "123"},
	})
	fmt.Println(made.Status, made.Amount, replayed, err)
	// Output: SUCCEEDED 1250 false <nil>
}

// A worker claims items, and deletes those that are done.
func Example_iidy() {
	service := serve(http.StatusOK, `{"claim":"0198f3c2-0000-4000-8000-000000000001",`+
		`"lease_until":"2026-11-21T08:00:00.123456Z","listentries":[{"item":"a.txt","attempts":2}],"deleted":1}`)
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

func Example_events() {
	service := serve(http.StatusOK, `{"id":8,"value":null}`)
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

func Example_pyggpot() {
	service := serve(http.StatusBadRequest, `{"code":"failed_precondition","message":"The pot is full.",`+
		`"details":[{"type":"google.rpc.ErrorInfo","value":"CghQT1RfRlVMTA"}]}`)
	defer service.Close()

	c := pyggpot.New(service.URL)
	added, err := c.Coin.AddCoins(context.Background(), connect.NewRequest(&coin.AddCoinsRequest{
		PotId: 1, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 3}},
	}))
	switch {
	case errors.Is(err, pyggpot.ErrPotFull):
		fmt.Println("they do not fit, and none was added")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("added", added.Msg.GetCoins())
	}
	// Output: they do not fit, and none was added
}
