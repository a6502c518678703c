package groupcommit

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Lease describes locks that a group takes in a separate commit before it is sent, and gives back in its own commit.
// Other replicas see a lease without waiting for a row. It expires, so that a holder that dies keeps no key.
type Lease[Q any] struct {
	// Take leases the keys of a group. It returns a token, which Send finds in [Attempt.Lease], and for each request
	// whether another holder has its key: such a request is not sent, and waits in the lane of its key. With
	// pass.SkipLocked it waits for no key; without it the group is of one key, and Take may wait for pass.LockWait. Its
	// errors mean that nothing was leased, as far as Take could see to it.
	Take func(ctx context.Context, pass Attempt, group []Q) (token any, held []bool, err error)
	// Release gives back leases that Send did not give back, because its group failed or the answer to these requests is
	// null.
	Release func(ctx context.Context, token any, group []Q)

	// RetryWait is the pause after a lane found its key held, half more or less. Required.
	RetryWait time.Duration
	// Retries bounds how often a request is tried again whose key was held or whose lease was lost, then ErrLocked.
	Retries int
}

// sendLeased leases the keys of a group and sends the requests whose keys it has got. The answers to the others are
// nil.
func (c *Committer[K, Q, R]) sendLeased(ctx context.Context, pass Attempt, group []*call[K, Q, R]) ([]*R, error) {
	token, held, err := c.cfg.Lease.Take(ctx, pass, requestsOf(group))
	if err != nil {
		return nil, sqldb.AsNotApplied(err)
	}

	var leased []*call[K, Q, R]
	var at []int // their indexes in the group
	for i, w := range group {
		if !held[i] {
			leased, at = append(leased, w), append(at, i)
		}
	}
	answers := make([]*R, len(group))
	if len(leased) == 0 {
		return answers, nil
	}

	pass.Lease = token
	got, err := c.sendProven(ctx, pass, leased)
	unanswered := leased
	if err == nil {
		unanswered = nil
		for n, i := range at {
			answers[i] = got[n]
			if got[n] == nil {
				unanswered = append(unanswered, leased[n])
			}
		}
	}

	if len(unanswered) > 0 {
		c.cfg.Lease.Release(ctx, token, requestsOf(unanswered))
	}
	return answers, err
}
