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
	// largeAnswers is the part of the replica's requests that may wait for a large answer, as a divisor.
	largeAnswers = 4
)

// budget limits the memory of large pages and claims, which a slow client may hold for a while.
type budget struct {
	bytes   *semaphore.Weighted
	callers *semaphore.Weighted // those whose answer may be large, until they have it
	running *semaphore.Weighted // statements that may find a large text: these take long, small ones go beside them
	metrics *metrics.Metrics
}

// newBudget returns the budget of a replica with so many requests, under which so many statements may run that may find
// a large text.
func newBudget(requests, running int, m *metrics.Metrics) *budget {
	of := func(n int) *semaphore.Weighted { return semaphore.NewWeighted(int64(max(n, 1))) }
	return &budget{semaphore.NewWeighted(answerBudget), of(requests / largeAnswers), of(running), m}
}

// read calls send, which runs a statement that returns a text of up to limit bytes, or tells the size of a longer one
// and changes nothing. Then it waits until the budget allows that size, holding no connection, and calls send again. It
// returns the function that gives back what the text holds, for when the answer is written, or attempt.ErrMemory when
// ctx ends before the budget allows the text, or when too many callers wait.
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
	if !b.callers.TryAcquire(1) {
		return nil, b.refuse(nil)
	}
	defer b.callers.Release(1)

	limit, held := largest, needed(largest)
	if !b.bytes.TryAcquire(held) {
		limit, held = smallAnswer, 0
	}
	for {
		size, kept, err := b.send(ctx, limit, held, send)
		if err != nil {
			return nil, err
		}
		if size <= limit {
			return func() { b.release(kept) }, nil
		}

		limit = min(size+size/8, largest) // the list may grow meanwhile
		held = needed(limit)
		if err := b.bytes.Acquire(ctx, held); err != nil {
			return nil, b.refuse(err)
		}
	}
}

// needed returns what a statement needs: the driver holds the server's message while it makes a text of it.
func needed(limit int) int64 { return 2 * int64(limit) }

// send calls send when its statement may run. Of the bytes that were taken it keeps the size of the text, or none for a
// small one.
func (b *budget) send(
	ctx context.Context, limit int, held int64, send func(int) (int, error),
) (size int, kept int64, err error) {
	b.metrics.AnswerBytes(held)
	defer func() { b.release(held - kept) }()
	if err := b.running.Acquire(ctx, 1); err != nil {
		return 0, 0, b.refuse(err)
	}
	defer b.running.Release(1)

	size, err = send(limit)
	if err == nil && size <= limit && size > smallAnswer {
		kept = int64(size)
	}
	return size, kept, err
}

func (b *budget) refuse(cause error) error {
	b.metrics.AnswerRefused()
	return errors.Join(attempt.ErrMemory, cause)
}

func (b *budget) release(n int64) {
	b.bytes.Release(n)
	b.metrics.AnswerBytes(-n)
}
