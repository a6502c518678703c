package payments_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/rowlock/rowlock/client/payments"
)

// The caller makes up a key for each payment and stores it, so that a repeat has the same one.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := payments.New(os.Getenv("PAYMENTS_URL")) // such as http://rowlock-payments
	if err != nil {
		fmt.Println(err)
		return
	}
	payment, replayed, err := c.Create(ctx, "ride-1-fare", payments.NewPayment{
		RideID: "ride-1", RiderID: "rider-1", Amount: 1250, Currency: "EUR",
		Card: payments.NewCard{Number: "4242424242424242", ExpMonth: 12, ExpYear: 2099, CVC: "123"},
	})
	fmt.Println(payment.Status, payment.Amount, replayed, err)
	// Output: SUCCEEDED 1250 false <nil>
}

// A decline is an answer, not an error. Another card needs another key.
func Example_declined() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := payments.New(os.Getenv("PAYMENTS_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	payment, _, err := c.Create(ctx, "ride-2-fare", payments.NewPayment{
		RideID: "ride-2", RiderID: "rider-1", Amount: 1250, Currency: "EUR",
		Card: payments.NewCard{Number: "4000000000000002", ExpMonth: 12, ExpYear: 2099, CVC: "123"},
	})
	fmt.Println(payment.Status, payment.DeclineCode, err)

	page, _, err := c.List(ctx, "ride-2", 10, "")
	fmt.Println(len(page), page[0].ID == payment.ID, err)
	// Output:
	// DECLINED card_declined <nil>
	// 1 true <nil>
}
