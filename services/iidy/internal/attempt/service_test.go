package attempt_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt/attempttest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	attempttest.Exercise(t, func(*testing.T) attempt.Repository { return attempttest.NewMemory() })
}

// numbers gives n items, and then err.
type numbers struct {
	n, given int
	err      error
}

func (s *numbers) Next() ([]byte, error) {
	if s.given == s.n {
		return nil, s.err
	}
	s.given++
	return fmt.Appendf(nil, "%08d", s.given), nil
}

// staging tells how a batch came to the repository.
type staging struct {
	*attempttest.Memory

	staged bool
}

func (s *staging) Stage(
	ctx context.Context, change attempt.Change, list attempt.List, next func() (*attempt.Items, error), claim attempt.Claim,
) (int64, error) {
	s.staged = true
	return s.Memory.Stage(ctx, change, list, next, claim)
}

// A batch is staged exactly when it is longer than what is held in memory.
func TestBatchIsStagedWhenItIsLong(t *testing.T) {
	t.Parallel()
	for n, staged := range map[int]bool{
		0: false, 1: false, attempt.MaxBatch: false, attempt.MaxBatch + 1: true, 2*attempt.MaxBatch + 2: true, 3*attempt.MaxBatch + 5: true,
	} {
		repo := &staging{Memory: attempttest.NewMemory()}
		got, err := attempt.NewService(repo).Batch(t.Context(), attempt.Add, "l", &numbers{n: n, err: io.EOF}, "")
		if err != nil || got != int64(n) || repo.staged != staged {
			t.Errorf("%d items: %d added, staged %t, %v", n, got, repo.staged, err)
		}
	}
}

func TestBatchOfLongItemsIsStagedEarlier(t *testing.T) {
	t.Parallel()
	repo := &staging{Memory: attempttest.NewMemory()}
	long := strings.Repeat("x", 1900)
	source := &sourceOf{}
	for i := range attempt.MaxBatchBytes/1900 + 10 {
		source.items = append(source.items, fmt.Sprintf("%s%08d", long, i))
	}
	n, err := attempt.NewService(repo).Batch(t.Context(), attempt.Add, "l", source, "")
	if err != nil || n != int64(attempt.MaxBatchBytes/1900+10) || !repo.staged {
		t.Errorf("%d added, staged %t, %v", n, repo.staged, err)
	}
}

type sourceOf struct{ items []string }

func (s *sourceOf) Next() ([]byte, error) {
	if len(s.items) == 0 {
		return nil, io.EOF
	}
	first := s.items[0]
	s.items = s.items[1:]
	return []byte(first), nil
}

// A fault anywhere fails the batch whole.
func TestBatchWithAFaultChangesNothing(t *testing.T) {
	t.Parallel()
	fault := errors.New("line 7")
	for _, n := range []int{0, 5, attempt.MaxBatch + 1, 2*attempt.MaxBatch + 7} {
		repo := attempttest.NewMemory()
		service := attempt.NewService(repo)
		if _, err := service.Batch(t.Context(), attempt.Add, "l", &numbers{n: n, err: fault}, ""); !errors.Is(err, fault) {
			t.Errorf("%d items: %v", n, err)
		}
		if exists, err := service.Exists(t.Context(), "l"); exists || err != nil {
			t.Errorf("%d items: something is there, %v", n, err)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := attempt.NewService(attempttest.Failing{Err: errors.New("the repository was asked")})
	for name, call := range map[string]struct {
		err, want error
	}{
		"page, -1":         {second(s.Page(ctx, "l", "", -1)), attempt.ErrInvalidCount},
		"page, 10001":      {second(s.Page(ctx, "l", "", attempt.MaxPage+1)), attempt.ErrInvalidCount},
		"page, 0":          {second(s.Page(ctx, "l", "", 0)), nil},
		"claim, 0":         {second(s.Claim(ctx, "l", 0, time.Minute)), attempt.ErrInvalidCount},
		"claim, 10001":     {second(s.Claim(ctx, "l", attempt.MaxPage+1, time.Minute)), attempt.ErrInvalidCount},
		"claim, short":     {second(s.Claim(ctx, "l", 1, time.Second-1)), attempt.ErrInvalidLease},
		"claim, long":      {second(s.Claim(ctx, "l", 1, 12*time.Hour+1)), attempt.ErrInvalidLease},
		"extend, short":    {second(s.Extend(ctx, "l", "c", 0)), attempt.ErrInvalidLease},
		"abandon, nothing": {second(s.Abandon(ctx, "l", 0, "")), attempt.ErrInvalidAttempts},
	} {
		if !errors.Is(call.err, call.want) {
			t.Errorf("%s: %v, want %v", name, call.err, call.want)
		}
	}
	for name, err := range map[string]error{
		"page, 10000": second(s.Page(ctx, "l", "", attempt.MaxPage)), "claim": second(s.Claim(ctx, "l", attempt.MaxPage, 12*time.Hour)),
		"extend": second(s.Extend(ctx, "l", "c", time.Second)), "abandon": second(s.Abandon(ctx, "l", 1, "")),
	} {
		if err == nil || !strings.Contains(err.Error(), "was asked") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// trickle gives a batch at once, and then an item now and then.
type trickle struct {
	numbers

	pause time.Duration
}

func (s *trickle) Next() ([]byte, error) {
	if s.given > attempt.MaxBatch {
		time.Sleep(s.pause)
	}
	return s.numbers.Next()
}

// timed tells how long the repository had to wait for a part.
type timed struct {
	*attempttest.Memory

	longest time.Duration
	parts   int
}

func (s *timed) Stage(
	ctx context.Context, change attempt.Change, list attempt.List, next func() (*attempt.Items, error), claim attempt.Claim,
) (int64, error) {
	return s.Memory.Stage(ctx, change, list, func() (*attempt.Items, error) {
		begin := time.Now()
		items, err := next()
		s.longest = max(s.longest, time.Since(begin))
		s.parts++
		return items, err
	}, claim)
}

// A source that is slow but never pauses for long does not keep the repository waiting.
func TestSlowSourceIsHandedOnInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repo := &timed{Memory: attempttest.NewMemory()}
		const n = attempt.MaxBatch + 200
		source := &trickle{numbers{n: n, err: io.EOF}, 300 * time.Millisecond}
		got, err := attempt.NewService(repo).Batch(t.Context(), attempt.Add, "l", source, "")
		if err != nil || got != n {
			t.Errorf("%d added, %v", got, err)
		}
		if repo.longest > 2*time.Second || repo.parts < 20 {
			t.Errorf("the longest of %d parts took %s", repo.parts, repo.longest)
		}
	})
}
