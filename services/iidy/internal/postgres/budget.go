package postgres

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
)

const (
	// smallAnswer is the largest answer, in bytes, that needs no budget.
	smallAnswer = 1 << 20
	// answerBudget limits the bytes that the larger answers of a replica hold together. The heap may grow to three times
	// that before it is collected.
	answerBudget = 64 << 20
	// maxEntry limits the line of an entry: the item, a space, 19 digits and a line break.
	maxEntry = attempt.MaxBytes + 21
	// largeAnswers divides the replica's requests: that part of them may wait for a large answer.
	largeAnswers = 4
)

// budget limits the memory of large pages and claims, which a slow client may hold for a while.
type budget struct {
	bytes   *semaphore.Weighted
	callers *semaphore.Weighted // whose answer may be large, until they have it
	running *semaphore.Weighted // statements that may return a large text; these are slow, and small ones pass them
	metrics *metrics.Metrics
}

// newBudget returns the budget of a replica with that many requests. running limits the concurrent statements that may
// return a large text.
func newBudget(requests, running int, m *metrics.Metrics) *budget {
	return &budget{permits(answerBudget), permits(requests / largeAnswers), permits(running), m}
}

// read calls send, which runs a statement that returns a text of up to limit bytes, or only the size of a longer text,
// changing nothing. For a longer text read waits, without a connection, until the budget allows its size, and calls
// send again. It returns a function that releases the text's share, to be called when the answer is written; or
// attempt.ErrMemory when ctx ends before the budget allows the text, or when too many callers are waiting.
//
// While the size is unknown, the budget must allow the largest text at once; otherwise the limit is a small answer,
// which never waits for memory. A small count does not wait for other statements either.
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

// needed returns the bytes that a statement needs: the driver holds the server's message while it copies the text.
func needed(limit int) int64 { return 2 * int64(limit) }

// send calls send once its statement may run. Of the held bytes it keeps the size of the text, or none for a small one.
func (b *budget) send(
	ctx context.Context, limit int, held int64, send func(int) (int, error),
) (size int, kept int64, err error) {
	b.metrics.AnswerBytes.Add(float64(held))
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
	b.metrics.AnswersRefused.Inc()
	return errors.Join(attempt.ErrMemory, cause)
}

func (b *budget) release(n int64) {
	b.bytes.Release(n)
	b.metrics.AnswerBytes.Sub(float64(n))
}
