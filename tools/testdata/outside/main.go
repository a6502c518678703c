// Outside calls all services by the client module, as a program of another
// repository does. The environment holds their addresses, and with TOKEN_FILE the
// path of a token. It leaves a count, a payment, an event and a pot behind.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"connectrpc.com/connect"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/client/events"
	"github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/client/payments"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var options []rowlock.Option
	if path := os.Getenv("TOKEN_FILE"); path != "" {
		options = append(options, rowlock.WithTokenFile(path))
	}
	failed := false
	for _, service := range []struct {
		name string
		call func(ctx context.Context, url, name string, options []rowlock.Option) (string, error)
	}{
		{"COUNTS_URL", count}, {"PAYMENTS_URL", pay}, {"IIDY_URL", work}, {"EVENTS_URL", add}, {"PYGGPOT_URL", save},
	} {
		found, err := service.call(ctx, os.Getenv(service.name), "outside-"+rand.Text(), options)
		fmt.Println(service.name, found, err)
		failed = failed || err != nil
	}
	if failed {
		os.Exit(1)
	}
}

func count(ctx context.Context, url, name string, options []rowlock.Option) (string, error) {
	c, err := counts.New(url, options...)
	if err != nil {
		return "", err
	}
	if _, err := c.Apply(ctx, []counts.Change{{ID: name, Amount: 41}}, counts.CreateMissing()); err != nil {
		return "", err
	}
	value, err := c.Increase(ctx, name, 1)
	return fmt.Sprint(value), err
}

func pay(ctx context.Context, url, name string, options []rowlock.Option) (string, error) {
	c, err := payments.New(url, options...)
	if err != nil {
		return "", err
	}
	card := payments.NewCard{Number: "4242424242424242", ExpMonth: 12, ExpYear: 2099, CVC: "123"}
	payment, _, err := c.Create(ctx, name, payments.NewPayment{
		RideID: name, RiderID: "rider-1", Amount: 1250, Currency: "EUR", Card: card,
	})
	return string(payment.Status), err
}

func work(ctx context.Context, url, name string, options []rowlock.Option) (string, error) {
	c, err := iidy.New(url, options...)
	if err != nil {
		return "", err
	}
	list := c.List(name)
	if _, err := list.Add(ctx, "a", "b"); err != nil {
		return "", err
	}
	done := ""
	for task, err := range list.Work(ctx, 1, time.Minute) {
		if err != nil {
			return done, err
		}
		if err := task.Done(ctx); err != nil {
			return done, err
		}
		done += task.Item
	}
	return done, nil
}

func add(ctx context.Context, url, _ string, options []rowlock.Option) (string, error) {
	c, err := events.New(url, options...)
	if err != nil {
		return "", err
	}
	event, err := c.CreateAndWait(ctx)
	return event.Value, err
}

func save(ctx context.Context, url, name string, options []rowlock.Option) (string, error) {
	c := pyggpot.New(url, options...)
	made, err := c.Pot.CreatePot(ctx, connect.NewRequest(&pot.CreatePotRequest{PotName: name, MaxCoins: 10}))
	if err != nil {
		return "", err
	}
	added, err := c.Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{
		PotId: made.Msg.GetPotId(), Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: 7}},
	}))
	if err != nil {
		return "", err
	}
	return added.Msg.GetCoins()[0].String(), nil
}
