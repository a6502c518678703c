package prove

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// op is a shorthand: times are in milliseconds.
func op(call, ret int, outcome Outcome, input, output any) Op {
	return Op{
		Key: "k", Outcome: outcome, Input: input, Output: output,
		Call: time.Duration(call) * time.Millisecond, Return: time.Duration(ret) * time.Millisecond,
	}
}

func TestCountModel(t *testing.T) {
	t.Parallel()
	add := func(n int64) countInput { return countInput{n} }
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"one after the other":      {[]Op{op(0, 1, OK, add(5), int64(5)), op(2, 3, OK, add(-2), int64(3)), op(4, 5, OK, add(0), int64(3))}, true},
		"at once, in either order": {[]Op{op(0, 9, OK, add(5), int64(7)), op(1, 8, OK, add(2), int64(2))}, true},
		"a lost increase":          {[]Op{op(0, 1, OK, add(5), int64(5)), op(2, 3, OK, add(0), int64(0))}, false},
		"an increase made twice":   {[]Op{op(0, 1, OK, add(5), int64(10))}, false},
		"twice, seen by a read":    {[]Op{op(0, 1, OK, add(5), int64(5)), op(2, 3, OK, add(0), int64(10))}, false},
		"a stale read":             {[]Op{op(0, 1, OK, add(5), int64(5)), op(2, 3, OK, add(1), int64(6)), op(4, 5, OK, add(0), int64(5))}, false},
		"one answer given twice":   {[]Op{op(0, 9, OK, add(1), int64(1)), op(0, 9, OK, add(1), int64(1))}, false},
		"unknown and done":         {[]Op{op(0, 1, Unknown, add(5), nil), op(2, 3, OK, add(0), int64(5))}, true},
		"unknown and done late":    {[]Op{op(0, 1, Unknown, add(5), nil), op(2, 3, OK, add(0), int64(0)), op(4, 5, OK, add(0), int64(5))}, true},
		"unknown and not done":     {[]Op{op(0, 1, Unknown, add(5), nil), op(2, 3, OK, add(0), int64(0))}, true},
		"unknown and done twice":   {[]Op{op(0, 1, Unknown, add(5), nil), op(2, 3, OK, add(0), int64(10))}, false},
		"not applied, but done":    {[]Op{op(0, 1, NotApplied, add(5), nil), op(2, 3, OK, add(0), int64(5))}, false},
	} {
		wantVerdict(t, name, countModel(), tc.ops, nil, tc.legal)
	}
}

func TestPaymentModel(t *testing.T) {
	t.Parallel()
	pay := func(n int) payInput { return payInput{n} }
	fresh := func(id string) payOutput { return payOutput{id, false} }
	again := func(id string) payOutput { return payOutput{id, true} }
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"paid and repeated":        {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(2, 3, OK, pay(1), again("a"))}, true},
		"conflict":                 {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(2, 3, Refused, pay(2), nil)}, true},
		"paid twice":               {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(2, 3, OK, pay(1), fresh("b"))}, false},
		"another answer":           {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(2, 3, OK, pay(1), again("b"))}, false},
		"another amount answered":  {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(2, 3, OK, pay(2), again("a"))}, false},
		"conflict with itself":     {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(2, 3, Refused, pay(1), nil)}, false},
		"replay of nothing":        {[]Op{op(0, 1, OK, pay(1), again("a"))}, false},
		"unknown, then its answer": {[]Op{op(0, 1, Unknown, pay(1), nil), op(2, 3, OK, pay(1), again("a"))}, true},
		"unknown, then paid":       {[]Op{op(0, 1, Unknown, pay(1), nil), op(2, 3, OK, pay(1), fresh("a"))}, true},
		"unknown, two answers": {[]Op{
			op(0, 1, Unknown, pay(1), nil), op(2, 3, OK, pay(1), again("a")), op(4, 5, OK, pay(1), again("b")),
		}, false},
		"not applied, but paid": {[]Op{op(0, 1, NotApplied, pay(1), nil), op(2, 3, OK, pay(1), again("a"))}, false},
	} {
		wantVerdict(t, name, paymentModel(), tc.ops, func(op Op) bool { return op.Outcome == Refused }, tc.legal)
	}
}

func wantVerdict(t *testing.T, name string, model porcupine.Model, ops []Op, keep func(Op) bool, legal bool) {
	t.Helper()
	dir := t.TempDir()
	found := checkLinear(model, ops, keep, dir)
	c := found.check()
	if c.OK != legal || found.keys != 1 || (c.Picture != "") == legal {
		t.Errorf("%s: %+v, want %t", name, c, legal)
	}
}

// Every key is judged on its own, and one that is wrong makes the verdict.
func TestCheckLinearKeys(t *testing.T) {
	t.Parallel()
	var ops []Op
	for _, key := range []string{"a", "b", "c"} {
		one := op(0, 1, OK, countInput{1}, int64(1))
		one.Key = key
		ops = append(ops, one)
	}
	if c := checkLinear(countModel(), ops, nil, "").check(); !c.OK {
		t.Errorf("%+v", c)
	}
	ops[1].Output = int64(2)
	if found := checkLinear(countModel(), ops, nil, ""); found.illegal != 1 || found.keys != 3 || found.check().OK {
		t.Errorf("%+v", found)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	h := NewHistory(time.Now())
	for _, o := range []Op{op(5, 6, OK, nil, nil), op(1, 9, Unknown, nil, nil), op(3, 4, OK, nil, nil)} {
		h.Add(o)
	}
	ops := h.Ops()
	if !slices.IsSortedFunc(ops, func(a, b Op) int { return int(a.Call - b.Call) }) || h.Count(OK) != 2 || h.Count(Unknown) != 1 {
		t.Errorf("%+v", ops)
	}
}
