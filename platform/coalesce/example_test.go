package coalesce_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
)

// deposit is a request to add an amount to an account.
type deposit struct {
	account string
	amount  int
}

// Run applies a whole group of requests in one statement and returns one answer per
// request; Do returns each caller's own.
func ExampleCoalescer_Do() {
	balances := map[string]int{"alice": 10}
	c, err := coalesce.New(coalesce.Config[string, deposit, int]{
		Name:   "deposits",
		Key:    func(d deposit) string { return d.account },
		Limits: coalesce.Limits{LockTimeout: 5 * time.Second, StatementTimeout: 8 * time.Second},
		// In a service this is one UPDATE for all accounts of the group.
		Run: func(_ context.Context, _ coalesce.Pass, group []deposit) ([]coalesce.Answer[int], error) {
			answers := make([]coalesce.Answer[int], len(group))
			for i, d := range group {
				balances[d.account] += d.amount
				answers[i].Value = balances[d.account]
			}
			return answers, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, amount := range []int{5, 20} {
		balance, err := c.Do(context.Background(), deposit{"alice", amount})
		fmt.Println(balance, err)
	}
	fmt.Println(c.Close(context.Background()))
	_, err = c.Do(context.Background(), deposit{"alice", 1})
	fmt.Println(err)
	// Output:
	// 15 <nil>
	// 35 <nil>
	// <nil>
	// coalesce: closed
}
