package postgres

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
)

const (
	// smallAnswer is the size in bytes up to which an answer draws on no budget.
	smallAnswer = 1 << 20
	// answerBudget is what the larger answers of a replica may hold together. The heap may grow to three times what is
	// held before it is collected.
	answerBudget = 64 << 20
	// maxEntry bounds the line of an entry: beside the item a space, 19 digits and a line break.
	maxEntry = attempt.MaxBytes + 21
)

// budget limits the memory of large pages and claims, which a slow client may hold for a while.
type budget struct {
	bytes   *semaphore.Weighted
	waiting chan struct{} // holds an element for each caller that waits
	running chan struct{} // holds an element for each statement that may find a large text
	metrics *metrics.Metrics
}

// newBudget returns a budget for which so many callers may wait at a time, and under which so many statements may run
// that may find a large text: these take long, and small ones must find a connection beside them.
func newBudget(waiting, running int, m *metrics.Metrics) *budget {
	return &budget{
		semaphore.NewWeighted(answerBudget), make(chan struct{}, max(waiting, 1)), make(chan struct{}, max(running, 1)), m,
	}
}

// read calls send, which runs a statement that returns a text of up to limit bytes, or tells the size of a longer one
// and changes nothing. Then it waits until the budget allows that size, holding no connection, and calls send again.
// It returns the function that gives back what the text holds, for when the answer is written, or attempt.ErrMemory
// when ctx ends before the budget allows the text, or when too many callers wait.
//
// As long as the size is not known the budget must allow the largest text at once, or the limit is that of a small
// answer: a small one never waits for memory. One of a small count does not wait for the statements of others either.
func (b *budget) read(
	ctx context.Context, count int, send func(limit int) (size int, err error),
) (free func(), err error) {
	largest := count * maxEntry
	if largest <= smallAnswer {
		_, err := send(largest)
		return func() {}, err
	}
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	limit, held := largest, b.tryTake(largest)
	if held == 0 {
		limit = smallAnswer
	}
	for {
		size, kept, err := b.send(limit, held, send)
		switch {
		case err != nil:
			return nil, err
		case size <= limit:
			return func() { b.give(kept) }, nil
		}
		limit = min(size+size/8, largest) // the list may grow meanwhile
		if held, err = b.take(ctx, limit); err != nil {
			return nil, err
		}
		if err := b.enter(ctx); err != nil {
			b.give(held)
			return nil, err
		}
	}
}

// enter waits until a statement that may find a large text may run.
func (b *budget) enter(ctx context.Context) error {
	select {
	case b.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		b.metrics.AnswerRefused()
		return errors.Join(attempt.ErrMemory, ctx.Err())
	}
}

// send calls send once, lets another statement run, and gives back of what is held all but the size of the text, or all
// without one.
func (b *budget) send(limit int, held int64, send func(int) (int, error)) (size int, kept int64, err error) {
	defer func() { <-b.running; b.give(held - kept) }()
	size, err = send(limit)
	if err == nil && size <= limit && size > smallAnswer {
		kept = int64(size)
	}
	return size, kept, err
}

// needed returns what a statement needs: the driver holds the server's message while it makes a text of it.
func needed(limit int) int64 { return 2 * int64(limit) }

// tryTake takes what a text of so many bytes needs, and 0 when the budget does not allow it now.
func (b *budget) tryTake(limit int) (held int64) {
	if !b.bytes.TryAcquire(needed(limit)) {
		return 0
	}
	b.metrics.AnswerBytes(needed(limit))
	return needed(limit)
}

// take waits for what a text of so many bytes needs.
func (b *budget) take(ctx context.Context, limit int) (held int64, err error) {
	select {
	case b.waiting <- struct{}{}:
		defer func() { <-b.waiting }()
	default:
		b.metrics.AnswerRefused()
		return 0, attempt.ErrMemory
	}
	if err := b.bytes.Acquire(ctx, needed(limit)); err != nil {
		b.metrics.AnswerRefused()
		return 0, errors.Join(attempt.ErrMemory, err)
	}
	b.metrics.AnswerBytes(needed(limit))
	return needed(limit), nil
}

func (b *budget) give(n int64) {
	if n > 0 {
		b.bytes.Release(n)
		b.metrics.AnswerBytes(-n)
	}
}
