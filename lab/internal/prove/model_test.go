package prove

import (
	"math/bits"
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
	over := int(keyLife/time.Millisecond) + 100
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

		"its life over, paid anew":         {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(over, over+1, OK, pay(1), fresh("b"))}, true},
		"its life over, another amount":    {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(over, over+1, OK, pay(2), fresh("b"))}, true},
		"its life over, the old answer":    {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(over, over+1, OK, pay(1), again("a"))}, false},
		"its life not over, paid anew":     {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(over/2, over/2+1, OK, pay(1), fresh("b"))}, false},
		"its life over meanwhile, anew":    {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(over/2, over+1, OK, pay(1), fresh("b"))}, true},
		"its life over meanwhile, the old": {[]Op{op(0, 1, OK, pay(1), fresh("a")), op(over/2, over+1, OK, pay(1), again("a"))}, true},
		"the new answer is the key's": {[]Op{
			op(0, 1, OK, pay(1), fresh("a")), op(over, over+1, OK, pay(1), fresh("b")), op(over+2, over+3, OK, pay(1), again("a")),
		}, false},
		"unknown, seen, its life over, the old answer": {[]Op{
			op(0, 1, Unknown, pay(1), nil), op(2, 3, OK, pay(1), again("a")), op(over, over+1, OK, pay(1), again("a")),
		}, false},
	} {
		wantVerdict(t, name, paymentModel(), tc.ops, func(op Op) bool { return op.Outcome == Refused }, tc.legal)
	}
}

func TestIidyModel(t *testing.T) {
	t.Parallel()
	in := func(verb iidyVerb, items uint8) iidyInput { return iidyInput{Verb: verb, Items: items} }
	add, increment, remove, page := in(iidyAdd, 1), in(iidyIncrement, 1), in(iidyDelete, 1), in(iidyPage, 0)
	told := func(n int64) iidyOutput { return iidyOutput{N: n, Told: true} }
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"a life": {[]Op{
			op(0, 1, OK, add, told(1)), op(2, 3, OK, increment, told(1)), op(4, 5, OK, page, told(1)), op(6, 7, OK, remove, told(1)),
			op(8, 9, OK, increment, told(0)), op(10, 11, OK, page, told(absent)),
		}, true},
		"added twice":       {[]Op{op(0, 1, OK, add, told(1)), op(2, 3, OK, add, told(1))}, false},
		"both added it":     {[]Op{op(0, 9, OK, add, told(1)), op(0, 9, OK, add, told(1))}, false},
		"lost":              {[]Op{op(0, 1, OK, add, told(1)), op(2, 3, OK, page, told(absent))}, false},
		"lost of a batch":   {[]Op{op(0, 1, OK, in(iidyAdd, 3), iidyOutput{}), op(2, 3, OK, page, told(absent))}, false},
		"unknown and done":  {[]Op{op(0, 1, Unknown, add, nil), op(2, 3, OK, page, told(0))}, true},
		"unknown, not done": {[]Op{op(0, 1, Unknown, add, nil), op(2, 3, OK, page, told(absent))}, true},
		"not applied, done": {[]Op{op(0, 1, NotApplied, add, nil), op(2, 3, OK, page, told(0))}, false},
		"incremented twice": {[]Op{
			op(0, 1, OK, add, told(1)), op(2, 3, Unknown, increment, nil), op(4, 5, OK, page, told(2)),
		}, false},
	} {
		wantVerdict(t, name, iidyModel(), tc.ops, nil, tc.legal)
	}
	for _, in := range []iidyInput{add, in(iidyAdd, 3), in(iidyIncrement, 2), in(iidyDelete, 3), page} {
		method, path, body := in.request("l")
		if (body != "") != (bits.OnesCount8(in.Items) > 1) || (method == "DELETE") != (in.Verb == iidyDelete) {
			t.Errorf("%+v is %s %s %s", in, method, path, body)
		}
	}
	for n, want := range map[int64]iidyOutput{0: told(0), 1: {}, 2: told(1)} {
		if got := in(iidyAdd, 3).told(n, 0, nil); got != want {
			t.Errorf("%d of 2 tells %+v", n, got)
		}
	}
	if got := page.told(iidyList{absent, 7, absent, absent}, 1, nil); got != told(7) {
		t.Errorf("a page tells %+v", got)
	}
}

// An item is held by one claim at a time, and what comes when the lease is over
// touches nothing.
func TestIidyClaims(t *testing.T) {
	t.Parallel()
	const lease = int(workLease / time.Millisecond)
	took := func(id string, until int) iidyOutput {
		return iidyOutput{N: 0, Told: true, Claim: id, Until: time.Duration(until) * time.Millisecond}
	}
	told := func(n int64) iidyOutput { return iidyOutput{N: n, Told: true} }
	by := func(verb iidyVerb, claim string) iidyInput { return iidyInput{Verb: verb, Items: 1, Claim: claim} }
	claim, page := iidyInput{Verb: iidyClaim, Count: 1}, iidyInput{Verb: iidyPage}
	none := iidyOutput{N: absent, Told: true}
	after := func(ops ...Op) []Op {
		return append([]Op{op(0, 1, OK, iidyInput{Verb: iidyAdd, Items: 1}, told(1))}, ops...)
	}
	released, extended, remove, later := by(iidyRelease, "A"), by(iidyExtend, "A"), by(iidyDelete, "A"), took("B", 9999)
	held := op(10, 20, OK, claim, took("A", 10+lease))
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"claimed and worked":       {after(held, op(30, 40, OK, by(iidyDelete, "A"), told(1)), op(50, 60, OK, page, told(absent))), true},
		"claimed twice":            {after(held, op(30, 40, OK, claim, took("B", 30+lease))), false},
		"claimed again when over":  {after(held, op(lease+50, lease+60, OK, claim, took("B", 9999))), true},
		"claimed again, released":  {after(held, op(30, 40, OK, released, iidyOutput{}), op(50, 60, OK, claim, took("B", 9999))), true},
		"claimed again, extended":  {after(held, op(30, 900, OK, extended, iidyOutput{}), op(lease+10, lease+15, OK, claim, later)), true},
		"passed over":              {after(op(2, 3, OK, claim, none)), true},
		"claimed what is not":      {[]Op{op(2, 3, OK, claim, took("A", 999))}, false},
		"extended, then claimed":   {after(held, op(900, 910, OK, extended, iidyOutput{}), op(lease+100, lease+101, OK, claim, later)), false},
		"a late change":            {after(held, op(lease+50, lease+60, OK, by(iidyIncrement, "A"), told(1))), false},
		"a late change, refused":   {after(held, op(lease+50, lease+60, OK, by(iidyIncrement, "A"), told(0))), true},
		"a change by a stranger":   {after(held, op(30, 40, OK, by(iidyIncrement, "B"), told(1))), false},
		"a change after a release": {after(held, op(30, 40, OK, released, iidyOutput{}), op(50, 60, OK, by(iidyDelete, "A"), told(1))), false},
		"a live change refused":    {after(held, op(30, 40, OK, by(iidyIncrement, "A"), told(0))), false},
		"over meanwhile, either":   {after(held, op(30, lease+60, OK, by(iidyIncrement, "A"), told(0))), true},
		"a lost claim holds it":    {after(op(2, 3, Unknown, claim, nil), op(30, 40, OK, claim, none), op(50, 60, OK, page, told(0))), true},
		"a lost extension":         {after(held, op(30, 40, Unknown, extended, nil), op(lease+50, lease+60, OK, remove, told(1))), true},
	} {
		wantVerdict(t, name, iidyModel(), tc.ops, nil, tc.legal)
	}
}

// A change counts when its lease ended while a stranger held its row.
func TestLateChanges(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	late := func(until, call int, o Outcome, n int64) lateChange { return lateChange{at(until), at(call), o, n} }
	for name, tc := range map[string]struct {
		change           lateChange
		refused, applied int
	}{
		"refused":               {late(500, 400, OK, 0), 1, 0},
		"applied":               {late(500, 400, OK, 1), 0, 1},
		"over after the hold":   {late(1500, 400, OK, 1), 0, 0},
		"sent before the hold":  {late(500, 50, OK, 1), 0, 0},
		"not in time":           {late(500, 400, NotApplied, 0), 0, 0},
		"over as it was let go": {late(995, 400, OK, 1), 0, 0},
	} {
		l := &lateChanges{holds: []*lateHold{{locked: at(100), released: at(1000), changes: []lateChange{tc.change}}}}
		if refused, applied := l.waited(); refused != tc.refused || applied != tc.applied || l.check().OK != (applied == 0) {
			t.Errorf("%s: %d refused, %d applied, %+v", name, refused, applied, l.check())
		}
	}
}

func TestPotModel(t *testing.T) {
	t.Parallel()
	add := func(b, s, g int32) potInput { return potInput{Add: potCoins{b, s, g}} }
	draw := func(n int32) potInput { return potInput{Draw: n} }
	look := potInput{}
	full := op(0, 1, OK, add(potSize, 0, 0), potCoins{potSize})
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"a life": {[]Op{
			op(0, 1, OK, add(3, 2, 0), potCoins{3, 2, 0}), op(2, 3, OK, potInput{Remove: potCoins{9, 0, 1}}, potCoins{3, 0, 0}),
			op(4, 5, OK, look, potCoins{0, 2, 0}), op(6, 7, OK, draw(5), potCoins{0, 2, 0}),
		}, true},
		"coins from nowhere": {[]Op{op(0, 1, OK, add(1, 0, 0), potCoins{1}), op(2, 3, OK, look, potCoins{2})}, false},
		"one coin drawn twice": {[]Op{
			op(0, 1, OK, add(1, 0, 0), potCoins{1}),
			op(2, 9, OK, draw(1), potCoins{1}),
			op(2, 9, OK, draw(1), potCoins{1}),
		}, false},
		"drawn what is not":     {[]Op{op(0, 1, OK, add(1, 0, 0), potCoins{1}), op(2, 3, OK, draw(1), potCoins{0, 1, 0})}, false},
		"drawn too few":         {[]Op{op(0, 1, OK, add(5, 0, 0), potCoins{5}), op(2, 3, OK, draw(3), potCoins{2})}, false},
		"over the brim":         {[]Op{full, op(2, 3, OK, add(1, 0, 0), potCoins{1})}, false},
		"refused at the brim":   {[]Op{full, op(2, 3, Refused, add(1, 0, 0), nil)}, true},
		"refused without cause": {[]Op{op(0, 1, Refused, add(1, 0, 0), nil)}, false},
		"unknown draw, any": {[]Op{
			op(0, 1, OK, add(1, 1, 0), potCoins{1, 1, 0}),
			op(2, 3, Unknown, draw(1), nil),
			op(4, 5, OK, look, potCoins{0, 1, 0}),
		}, true},
		"unknown draw, two gone": {[]Op{
			op(0, 1, OK, add(1, 1, 0), potCoins{1, 1, 0}),
			op(2, 3, Unknown, draw(1), nil),
			op(4, 5, OK, look, potCoins{}),
		}, false},
	} {
		wantVerdict(t, name, potModel(), tc.ops, func(op Op) bool { return op.Outcome == Refused }, tc.legal)
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
