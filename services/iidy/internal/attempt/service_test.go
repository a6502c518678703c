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
)

// source yields n items with a common prefix, and then err.
type source struct {
	prefix   string
	n, given int
	err      error
	pause    time.Duration // before each item beyond those of a batch in memory
}

func (s *source) Next() ([]byte, error) {
	if s.given == s.n {
		return nil, s.err
	}
	s.given++
	if s.given > attempt.MaxBatch+1 {
		time.Sleep(s.pause)
	}
	return fmt.Appendf(nil, "%s%08d", s.prefix, s.given), nil
}

func (s *source) Place() string { return fmt.Sprintf("item %d", s.given) }

// recorder records how a batch reaches the repository.
type recorder struct {
	attempt.Repository

	calls, staged, parts int
	longest              time.Duration // wait for a part
}

func (*recorder) Get(context.Context, attempt.List, attempt.Item) (int64, error) { return 0, nil }

func (*recorder) Exists(context.Context, attempt.List) (bool, error) { return true, nil }

func (r *recorder) ApplyBatch(
	_ context.Context, _ attempt.Change, _ attempt.List, items *attempt.Items, _ attempt.Claim,
) (int64, error) {
	r.calls++
	return int64(items.Len()), nil
}

func (r *recorder) ApplyStaged(
	_ context.Context, _ attempt.Change, _ attempt.List, next func() (*attempt.Items, error), _ attempt.Claim,
) (n int64, err error) {
	r.calls++
	r.staged++
	for {
		begin := time.Now()
		items, err := next()
		r.longest = max(r.longest, time.Since(begin))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		r.parts++
		n += int64(items.Len())
	}
}

// A batch is staged exactly when it is longer than what is held in memory.
func TestLongBatchesAreStaged(t *testing.T) {
	t.Parallel()
	const long = attempt.MaxBatchBytes/1908 + 10
	for _, c := range []struct {
		items  source
		staged int
	}{
		{source{n: 0}, 0},
		{source{n: attempt.MaxBatch}, 0},
		{source{n: attempt.MaxBatch + 1}, 1},
		{source{n: 3*attempt.MaxBatch + 5}, 1},
		{source{n: long, prefix: strings.Repeat("x", 1900)}, 1},
	} {
		repo := new(recorder)
		c.items.err = io.EOF
		got, err := attempt.NewService(repo).ApplyBatch(t.Context(), attempt.Add, "l", &c.items, "")
		if err != nil || got != int64(c.items.n) || repo.staged != c.staged || repo.calls != min(c.items.n, 1) {
			t.Errorf("%d items: %d added, %+v, %v", c.items.n, got, repo, err)
		}
	}
}

// A short batch with an error does not reach the repository; a long one returns it from next.
func TestErrorsFailABatch(t *testing.T) {
	t.Parallel()
	errSource := errors.New("the source broke off")
	for _, n := range []int{0, 5, attempt.MaxBatch + 1, 2*attempt.MaxBatch + 7} {
		repo := new(recorder)
		service := attempt.NewService(repo)
		added, err := service.ApplyBatch(t.Context(), attempt.Add, "l", &source{n: n, err: errSource}, "")
		if !errors.Is(err, errSource) {
			t.Errorf("%d added, %v", added, err)
		}
		if repo.calls != repo.staged {
			t.Errorf("%d items with an error were applied", n)
		}
	}
	_, err := attempt.NewService(new(recorder)).ApplyBatch(t.Context(), attempt.Add, "l", &source{n: 3, prefix: "\n"}, "")
	place, ok := errors.AsType[*attempt.PlaceError](err)
	if !ok || place.Place != "item 1" || !errors.Is(err, attempt.ErrInvalidItem) {
		t.Errorf("an invalid item: %v", err)
	}
}

// A slow source does not keep the repository waiting for longer than about a second.
func TestSlowSourceIsPassedOnInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repo := new(recorder)
		const n = attempt.MaxBatch + 200
		items := &source{n: n, err: io.EOF, pause: 300 * time.Millisecond}
		got, err := attempt.NewService(repo).ApplyBatch(t.Context(), attempt.Add, "l", items, "")
		if err != nil || got != n || repo.longest > 2*time.Second || repo.parts < 20 {
			t.Errorf("%d added in %d parts, the longest took %s: %v", got, repo.parts, repo.longest, err)
		}
	})
}

// Every method checks its arguments, and does not call the repository with bad ones.
func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	const claim, bad = attempt.Claim("3f2504e0-4f89-41d3-9a0c-0305e82c3301"), attempt.Claim("3f2504e0")
	s, ctx := attempt.NewService(nil), t.Context()
	one := func() *source { return &source{n: 1, err: io.EOF} }
	for name, c := range map[string]struct{ err, want error }{
		"get, list":          {second(s.Get(ctx, "", "a")), attempt.ErrInvalidList},
		"exists, list":       {second(s.Exists(ctx, "\n")), attempt.ErrInvalidList},
		"page, list":         {second(s.Page(ctx, "", "", 1)), attempt.ErrInvalidList},
		"page, -1":           {second(s.Page(ctx, "l", "", -1)), attempt.ErrInvalidCount},
		"page, 10001":        {second(s.Page(ctx, "l", "", attempt.MaxPage+1)), attempt.ErrInvalidCount},
		"page, 0":            {second(s.Page(ctx, "l", "", 0)), nil},
		"page, position":     {second(s.Page(ctx, "l", "\xff", 1)), attempt.ErrInvalidPosition},
		"count, list":        {second(s.Count(ctx, "")), attempt.ErrInvalidList},
		"apply, item":        {second(s.Apply(ctx, attempt.Add, "l", "", "")), attempt.ErrInvalidItem},
		"apply, claim":       {second(s.Apply(ctx, attempt.Delete, "l", "a", bad)), attempt.ErrInvalidClaim},
		"apply batch, list":  {second(s.ApplyBatch(ctx, attempt.Add, "", one(), "")), attempt.ErrInvalidList},
		"apply batch, claim": {second(s.ApplyBatch(ctx, attempt.Delete, "l", one(), bad)), attempt.ErrInvalidClaim},
		"claim, list":        {second(s.Claim(ctx, "", 1, time.Minute)), attempt.ErrInvalidList},
		"claim, 0":           {second(s.Claim(ctx, "l", 0, time.Minute)), attempt.ErrInvalidCount},
		"claim, 10001":       {second(s.Claim(ctx, "l", attempt.MaxPage+1, time.Minute)), attempt.ErrInvalidCount},
		"claim, short":       {second(s.Claim(ctx, "l", 1, time.Second-1)), attempt.ErrInvalidLease},
		"claim, long":        {second(s.Claim(ctx, "l", 1, 12*time.Hour+1)), attempt.ErrInvalidLease},
		"extend, no claim":   {second(s.Extend(ctx, "l", "", time.Second)), attempt.ErrInvalidClaim},
		"extend, short":      {second(s.Extend(ctx, "l", claim, 0)), attempt.ErrInvalidLease},
		"release, no claim":  {second(s.Release(ctx, "l", "")), attempt.ErrInvalidClaim},
		"abandon, list":      {second(s.Abandon(ctx, "", 1, "")), attempt.ErrInvalidList},
		"abandon, 0":         {second(s.Abandon(ctx, "l", 0, "")), attempt.ErrInvalidAttempts},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
