package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

const (
	mib     = 1 << 20
	largest = attempt.MaxPage * postgres.MaxEntry
)

// answers is a budget.
type answers struct {
	*testing.T
	postgres.Budget

	reg *prometheus.Registry
}

// newAnswers returns a budget for large answers of so many callers.
func newAnswers(t *testing.T, callers int) answers {
	t.Helper()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	return answers{t, postgres.NewBudget(4*callers, 2, m), reg}
}

// holds compares the bytes that large answers hold.
func (a answers) holds(when string, want int) {
	a.Helper()
	if got := apptest.Gathered(a.T, a.reg, "iidy_large_answer_bytes"); got != float64(want) {
		a.Errorf("%s: large answers hold %g bytes, want %d", when, got, want)
	}
}

// sized is a statement with a text of size bytes. It appends each limit to limits.
func sized(size int, limits *[]int) func(int) (int, error) {
	return func(limit int) (int, error) {
		*limits = append(*limits, limit)
		return size, nil
	}
}

// take holds n bytes, which must be free, until the result is called.
func (a answers) take(n int) (free func()) {
	a.Helper()
	var limits []int
	free, err := a.Read(a.Context(), (n+postgres.MaxEntry-1)/postgres.MaxEntry, sized(n, &limits))
	if err != nil || len(limits) != 1 || limits[0] < n {
		a.Fatalf("statements with limits %v, %v", limits, err)
	}
	return free
}

// A statement takes twice what its text may need, the answer what the text has, and a small one nothing; all is given
// back when it is written, when the statement fails, and when it panics.
func TestBudgetIsGivenBack(t *testing.T) {
	t.Parallel()
	a := newAnswers(t, 1)
	for name, c := range map[string]struct{ count, size, during, after int }{
		"few items":       {500, 500 * postgres.MaxEntry, 0, 0},
		"many, but small": {attempt.MaxPage, mib, 2 * largest, 0},
		"large":           {attempt.MaxPage, mib + 1, 2 * largest, mib + 1},
		"largest":         {attempt.MaxPage, largest, 2 * largest, largest},
	} {
		free, err := a.Read(t.Context(), c.count, func(limit int) (int, error) {
			if limit != c.count*postgres.MaxEntry {
				t.Errorf("%s: a statement with limit %d", name, limit)
			}
			a.holds(name+", during the statement", c.during)
			return c.size, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		a.holds(name+", until it is written", c.after)
		free()
		a.holds(name+", written", 0)
	}
	broken := errors.New("broken")
	_, err := a.Read(t.Context(), attempt.MaxPage, func(int) (int, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("an error of the statement became %v", err)
	}
	a.holds("after an error", 0)
	func() {
		defer func() { _ = recover() }()
		_, _ = a.Read(t.Context(), attempt.MaxPage, func(int) (int, error) { panic("broken") })
	}()
	a.holds("after a panic", 0)
}

// While large answers hold the budget, a small one does not wait, whatever its count, and a large one waits until as
// much is given back as it needs. It waits no longer than its request, and not behind too many others.
func TestBudgetIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(t, 1)
		const size = 8 * mib // needs 18 MiB
		one, two := a.take(20*mib), a.take(20*mib)
		held := 40 * mib
		three := a.take(9 * mib)
		held += 9 * mib
		a.holds("full", held)

		var limits []int
		_, err := a.Read(t.Context(), attempt.MaxPage, sized(mib, &limits))
		if err != nil || !slices.Equal(limits, []int{mib}) {
			t.Errorf("a small answer: limits %v, %v", limits, err)
		}
		a.holds("beside a small answer", held)

		limits = nil
		answered := false
		go func() {
			free, err := a.Read(t.Context(), attempt.MaxPage, sized(size, &limits))
			if err != nil || !slices.Equal(limits, []int{mib, size + size/8}) {
				t.Errorf("a large answer: limits %v, %v", limits, err)
			}
			answered = true
			free()
		}()
		synctest.Wait()
		if answered || len(limits) != 1 {
			t.Errorf("a large answer did not wait: limits %v", limits)
		}
		a.holds("while it waits", held)
		if _, err := a.Read(t.Context(), attempt.MaxPage, sized(size, new([]int))); !errors.Is(err, attempt.ErrMemory) {
			t.Errorf("one more that would wait: %v", err)
		}
		three()
		synctest.Wait()
		if !answered {
			t.Error("the large answer waits although there is room")
		}

		four := a.take(10 * mib)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = a.Read(ctx, attempt.MaxPage, sized(size, new([]int)))
		if took := time.Since(begin); !errors.Is(err, attempt.ErrMemory) || took != 10*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		one()
		two()
		four()
		a.holds("in the end", 0)
		if got := apptest.Gathered(t, a.reg, "iidy_large_answers_refused_total"); got != 2 {
			t.Errorf("%g refusals are counted", got)
		}
	})
}

// Of the statements that may find a large text so many run at a time. One that cannot does not wait for them.
func TestLargeStatementsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(t, 4)
		running, end := 0, make(chan struct{})
		large := func(ctx context.Context) error {
			free, err := a.Read(ctx, attempt.MaxPage, func(int) (int, error) {
				running++
				<-end
				return 1, nil
			})
			if err == nil {
				free()
			}
			return err
		}
		for range 3 {
			go func() {
				if err := large(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		if running != 2 {
			t.Errorf("%d of 3 run, want 2", running)
		}
		a.take(500 * postgres.MaxEntry)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := large(ctx); !errors.Is(err, attempt.ErrMemory) {
			t.Errorf("one whose time is over: %v", err)
		}
		close(end)
		synctest.Wait()
		a.holds("in the end", 0)
		if running != 3 {
			t.Errorf("%d ran in the end", running)
		}
	})
}

// fill adds n of the longest items, and returns them.
func (r *rig) fill(n int) []string {
	r.Helper()
	pad := strings.Repeat("x", attempt.MaxBytes-len(list)-len("0000000"))
	all := strings.Split(items(0, n), "\n")
	source := new(attempt.Items)
	for i := range all {
		all[i] += pad
		source.Add([]byte(all[i]))
	}
	if added, err := r.ApplyBatch(r.Context(), attempt.Add, list, source, ""); err != nil || added != int64(n) {
		r.Fatalf("added %d: %v", added, err)
	}
	return all
}

// A large claim or page that gets no budget claims nothing; once it gets it, it is as long as asked.
func TestLargeAnswersWaitForTheBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 1300
	all := r.fill(n)
	var held []func()
	for _, n := range []int{largest, largest, 10 * mib, 7 * mib, 4 * mib} { // each needs twice that at first
		held = append(held, answers{t, r.Budget(), r.reg}.take(n))
	}

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if l, err := r.Claim(ctx, list, n, time.Hour); !errors.Is(err, attempt.ErrMemory) || l.Claim != "" {
			t.Errorf("a claim without a budget: %.50q %v", l.Claim, err)
		}
	}()
	waittest.Eventually(t, "the claim waits", func() bool { return r.Budget().Waited() })
	if p, err := r.Page(t.Context(), list, "", n); !errors.Is(err, attempt.ErrMemory) || p.Len() != 0 {
		t.Errorf("a page without a budget: %d entries, %v", p.Len(), err)
	}
	cancel()
	<-ended
	if c, err := r.Count(t.Context(), list); err != nil || c.Claimed != 0 {
		t.Errorf("%d items are claimed: %v", c.Claimed, err)
	}
	for _, free := range held {
		free()
	}
	p, err := r.Page(t.Context(), list, "", attempt.MaxPage)
	if err != nil || p.Lines() != strings.Join(all, " 0\n")+" 0" {
		t.Errorf("a page of %d entries, %v", p.Len(), err)
	}
	p.Close()
	if got := apptest.Gathered(t, r.reg, "iidy_large_answer_bytes"); got != 0 {
		t.Errorf("%g bytes are held in the end", got)
	}
}
