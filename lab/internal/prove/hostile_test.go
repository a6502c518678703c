package prove

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/history"
)

// Every demand on a service under attack fails when it is not met, and no other one.
func TestAccount(t *testing.T) {
	t.Parallel()
	windows, err := Schedule(1, 8*time.Second, []string{windowHostile})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		calm, under time.Duration // p99
		spoil       func(a *attacked)
		want        []string
	}{
		"holds":          {calm: 40 * time.Millisecond, under: lockWait - 1},
		"waits":          {calm: 40 * time.Millisecond, under: lockWait, want: []string{"isolated"}},
		"a wrong answer": {spoil: func(a *attacked) { a.Accuse("201") }, want: []string{"attackers"}},
		"memory":         {spoil: func(a *attacked) { a.memory = mostMemory + 1 }, want: []string{"memory"}},
		"idle":           {spoil: func(a *attacked) { a.idle = 2 * time.Second }, want: []string{"idle in transaction"}},
	} {
		a := &attacked{victim: &victim{}}
		if tc.spoil != nil {
			tc.spoil(a)
		}
		w, f, r := windows[0], &findings{}, &ServiceResult{}
		from := w.Events[0].At
		for at, took := range map[time.Duration]time.Duration{
			0: time.Minute, from - 1: tc.calm, from: tc.under, w.For - quiet: time.Minute,
		} {
			f.ops = append(f.ops, history.Op{Call: at, Return: at + took})
		}
		a.account(t.Context(), w, f, r)
		var failed []string
		for _, c := range f.checks {
			if !c.OK {
				failed = append(failed, c.Name)
			}
		}
		if !slices.Equal(failed, tc.want) || r.Calm != tc.calm || r.Attacked != tc.under {
			t.Errorf("%s: %v, want %v; %s, then %s", name, failed, tc.want, r.Calm, r.Attacked)
		}
	}
}

// What is stored lies between what was acknowledged and that with what may have been applied.
func TestAttackersAccounts(t *testing.T) {
	t.Parallel()
	v := &victim{}
	for _, err := range []error{
		nil, nil, &rowlock.Error{Code: rowlock.ErrOutcomeUnknown}, &rowlock.Error{Code: rowlock.ErrOverloaded},
	} {
		if got := v.ask(t.Context(), func(context.Context) (int64, error) { return 1, err }); !errors.Is(got, err) {
			t.Errorf("%v instead of %v", got, err)
		}
	}
	for n, want := range map[int64]bool{1: false, 2: true, 3: true, 4: false} {
		if v.adds(n) != want {
			t.Errorf("%d stored, %d acknowledged, %d unknown: %t", n, v.acked, v.unknown, !want)
		}
	}
	if len(v.Wrong()) != 0 {
		t.Errorf("refusals that must be: %v", v.Wrong())
	}
	_ = v.ask(t.Context(), func(context.Context) (int64, error) { return 0, &rowlock.Error{Code: rowlock.ErrInternal} })
	if len(v.Wrong()) != 1 {
		t.Error("an internal error is no wrong answer")
	}
}
