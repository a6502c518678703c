package prove

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// op is a shorthand: times are in milliseconds.
func op(call, ret int, outcome services.Outcome, input, output any) history.Op {
	return history.Op{
		Key: "k", Outcome: outcome, Input: input, Output: output,
		Call: time.Duration(call) * time.Millisecond, Return: time.Duration(ret) * time.Millisecond,
	}
}

func TestCountModel(t *testing.T) {
	t.Parallel()
	const read = int64(0)
	for name, tc := range map[string]struct {
		ops   []history.Op
		legal bool
	}{
		"one after the other": {[]history.Op{
			op(0, 1, history.OK, int64(5), int64(5)), op(2, 3, history.OK, int64(-2), int64(3)), op(4, 5, history.OK, read, int64(3)),
		}, true},
		"at once, in either order": {[]history.Op{op(0, 9, history.OK, int64(5), int64(7)), op(1, 8, history.OK, int64(2), int64(2))}, true},
		"a lost increase":          {[]history.Op{op(0, 1, history.OK, int64(5), int64(5)), op(2, 3, history.OK, read, int64(0))}, false},
		"an increase made twice":   {[]history.Op{op(0, 1, history.OK, int64(5), int64(10))}, false},
		"twice, seen by a read":    {[]history.Op{op(0, 1, history.OK, int64(5), int64(5)), op(2, 3, history.OK, read, int64(10))}, false},
		"a stale read": {[]history.Op{
			op(0, 1, history.OK, int64(5), int64(5)), op(2, 3, history.OK, int64(1), int64(6)), op(4, 5, history.OK, read, int64(5)),
		}, false},
		"one answer given twice": {[]history.Op{op(0, 9, history.OK, int64(1), int64(1)), op(0, 9, history.OK, int64(1), int64(1))}, false},
		"unknown and done":       {[]history.Op{op(0, 1, history.Unknown, int64(5), nil), op(2, 3, history.OK, read, int64(5))}, true},
		"unknown and done late": {[]history.Op{
			op(0, 1, history.Unknown, int64(5), nil), op(2, 3, history.OK, read, int64(0)), op(4, 5, history.OK, read, int64(5)),
		}, true},
		"unknown and not done":   {[]history.Op{op(0, 1, history.Unknown, int64(5), nil), op(2, 3, history.OK, read, int64(0))}, true},
		"unknown and done twice": {[]history.Op{op(0, 1, history.Unknown, int64(5), nil), op(2, 3, history.OK, read, int64(10))}, false},
		"not applied, but done":  {[]history.Op{op(0, 1, history.NotApplied, int64(5), nil), op(2, 3, history.OK, read, int64(5))}, false},
	} {
		wantLegal(t, name, countModel(), tc.ops, tc.legal)
	}
}

func TestPaymentModel(t *testing.T) {
	t.Parallel()
	fresh := func(id string) paymentOutput { return paymentOutput{id, false} }
	again := func(id string) paymentOutput { return paymentOutput{id, true} }
	paid := op(0, 1, history.OK, int64(1), fresh("a"))
	over := int(keyLife/time.Millisecond) + 100
	for name, tc := range map[string]struct {
		ops   []history.Op
		legal bool
	}{
		"paid and repeated":        {[]history.Op{paid, op(2, 3, history.OK, int64(1), again("a"))}, true},
		"conflict":                 {[]history.Op{paid, op(2, 3, history.Refused, int64(2), nil)}, true},
		"paid twice":               {[]history.Op{paid, op(2, 3, history.OK, int64(1), fresh("b"))}, false},
		"another answer":           {[]history.Op{paid, op(2, 3, history.OK, int64(1), again("b"))}, false},
		"another amount answered":  {[]history.Op{paid, op(2, 3, history.OK, int64(2), again("a"))}, false},
		"conflict with itself":     {[]history.Op{paid, op(2, 3, history.Refused, int64(1), nil)}, false},
		"replay of nothing":        {[]history.Op{op(0, 1, history.OK, int64(1), again("a"))}, false},
		"unknown, then its answer": {[]history.Op{op(0, 1, history.Unknown, int64(1), nil), op(2, 3, history.OK, int64(1), again("a"))}, true},
		"unknown, then paid":       {[]history.Op{op(0, 1, history.Unknown, int64(1), nil), op(2, 3, history.OK, int64(1), fresh("a"))}, true},
		"unknown, two answers": {[]history.Op{
			op(0, 1, history.Unknown, int64(1), nil), op(2, 3, history.OK, int64(1), again("a")), op(4, 5, history.OK, int64(1), again("b")),
		}, false},
		"not applied, but paid": {[]history.Op{op(0, 1, history.NotApplied, int64(1), nil), op(2, 3, history.OK, int64(1), again("a"))}, false},

		"its life over, paid anew":         {[]history.Op{paid, op(over, over+1, history.OK, int64(1), fresh("b"))}, true},
		"its life over, another amount":    {[]history.Op{paid, op(over, over+1, history.OK, int64(2), fresh("b"))}, true},
		"its life over, the old answer":    {[]history.Op{paid, op(over, over+1, history.OK, int64(1), again("a"))}, false},
		"its life not over, paid anew":     {[]history.Op{paid, op(over/2, over/2+1, history.OK, int64(1), fresh("b"))}, false},
		"its life over meanwhile, anew":    {[]history.Op{paid, op(over/2, over+1, history.OK, int64(1), fresh("b"))}, true},
		"its life over meanwhile, the old": {[]history.Op{paid, op(over/2, over+1, history.OK, int64(1), again("a"))}, true},
		"the new answer is the key's": {[]history.Op{
			paid, op(over, over+1, history.OK, int64(1), fresh("b")),
			op(over+2, over+3, history.OK, int64(1), again("a")),
		}, false},
		"unknown, seen, its life over, the old answer": {[]history.Op{
			op(0, 1, history.Unknown, int64(1), nil), op(2, 3, history.OK, int64(1), again("a")), op(over, over+1, history.OK, int64(1), again("a")),
		}, false},
	} {
		wantLegal(t, name, paymentModel(), tc.ops, tc.legal)
	}
}

func TestIidyModel(t *testing.T) {
	t.Parallel()
	add, increment := itemInput{verb: itemAdd}, itemInput{verb: itemIncrement}
	remove, page := itemInput{verb: itemDelete}, itemInput{verb: itemPage}
	says := func(n int64) itemOutput { return itemOutput{n: n, known: true} }
	for name, tc := range map[string]struct {
		ops   []history.Op
		legal bool
	}{
		"a life": {[]history.Op{
			op(0, 1, history.OK, add, says(1)), op(2, 3, history.OK, increment, says(1)), op(4, 5, history.OK, page, says(1)),
			op(6, 7, history.OK, remove, says(1)),
			op(8, 9, history.OK, increment, says(0)), op(10, 11, history.OK, page, says(absent)),
		}, true},
		"added twice":   {[]history.Op{op(0, 1, history.OK, add, says(1)), op(2, 3, history.OK, add, says(1))}, false},
		"both added it": {[]history.Op{op(0, 9, history.OK, add, says(1)), op(0, 9, history.OK, add, says(1))}, false},
		"lost":          {[]history.Op{op(0, 1, history.OK, add, says(1)), op(2, 3, history.OK, page, says(absent))}, false},
		"lost of a batch": {[]history.Op{
			op(0, 1, history.OK, add, itemOutput{}), op(2, 3, history.OK, page, says(absent)),
		}, false},
		"unknown and done":  {[]history.Op{op(0, 1, history.Unknown, add, nil), op(2, 3, history.OK, page, says(0))}, true},
		"unknown, not done": {[]history.Op{op(0, 1, history.Unknown, add, nil), op(2, 3, history.OK, page, says(absent))}, true},
		"not applied, done": {[]history.Op{op(0, 1, history.NotApplied, add, nil), op(2, 3, history.OK, page, says(0))}, false},
		"incremented twice": {[]history.Op{
			op(0, 1, history.OK, add, says(1)), op(2, 3, history.Unknown, increment, nil), op(4, 5, history.OK, page, says(2)),
		}, false},
	} {
		wantLegal(t, name, itemModel(), tc.ops, tc.legal)
	}
}

// An item is held by one claim at a time, and what comes when the lease is over
// touches nothing.
func TestIidyClaims(t *testing.T) {
	t.Parallel()
	const lease = int(workLease / time.Millisecond)
	took := func(id string, until int) itemOutput {
		return itemOutput{n: 0, known: true, claim: id, until: time.Duration(until) * time.Millisecond}
	}
	says := func(n int64) itemOutput { return itemOutput{n: n, known: true} }
	by := func(verb itemVerb, claim string) itemInput { return itemInput{verb: verb, claim: claim} }
	claim, page := itemInput{verb: itemClaim}, itemInput{verb: itemPage}
	none := itemOutput{n: absent, known: true}
	after := func(ops ...history.Op) []history.Op {
		return append([]history.Op{op(0, 1, history.OK, itemInput{verb: itemAdd}, says(1))}, ops...)
	}
	released, extended, remove, later := by(itemRelease, "A"), by(itemExtend, "A"), by(itemDelete, "A"), took("B", 9999)
	increment := by(itemIncrement, "A")
	held := op(10, 20, history.OK, claim, took("A", 10+lease))
	for name, tc := range map[string]struct {
		ops   []history.Op
		legal bool
	}{
		"claimed and worked": {after(
			held, op(30, 40, history.OK, remove, says(1)), op(50, 60, history.OK, page, says(absent)),
		), true},
		"claimed twice":           {after(held, op(30, 40, history.OK, claim, took("B", 30+lease))), false},
		"claimed again when over": {after(held, op(lease+50, lease+60, history.OK, claim, took("B", 9999))), true},
		"claimed again, released": {after(
			held, op(30, 40, history.OK, released, itemOutput{}), op(50, 60, history.OK, claim, took("B", 9999)),
		), true},
		"claimed again, extended": {after(
			held, op(30, 900, history.OK, extended, itemOutput{}), op(lease+10, lease+15, history.OK, claim, later),
		), true},
		"passed over":         {after(op(2, 3, history.OK, claim, none)), true},
		"claimed what is not": {[]history.Op{op(2, 3, history.OK, claim, took("A", 999))}, false},
		"extended, then claimed": {after(
			held, op(900, 910, history.OK, extended, itemOutput{}), op(lease+100, lease+101, history.OK, claim, later),
		), false},
		"a late change":             {after(held, op(lease+50, lease+60, history.OK, increment, says(1))), false},
		"a late change, refused":    {after(held, op(lease+50, lease+60, history.OK, increment, says(0))), true},
		"a change by another claim": {after(held, op(30, 40, history.OK, by(itemIncrement, "B"), says(1))), false},
		"a change after a release": {after(
			held, op(30, 40, history.OK, released, itemOutput{}), op(50, 60, history.OK, remove, says(1)),
		), false},
		"a live change refused":  {after(held, op(30, 40, history.OK, increment, says(0))), false},
		"over meanwhile, either": {after(held, op(30, lease+60, history.OK, increment, says(0))), true},
		"a lost claim holds it": {after(
			op(2, 3, history.Unknown, claim, nil), op(30, 40, history.OK, claim, none), op(50, 60, history.OK, page, says(0)),
		), true},
		"a lost extension": {after(
			held, op(30, 40, history.Unknown, extended, nil), op(lease+50, lease+60, history.OK, remove, says(1)),
		), true},
	} {
		wantLegal(t, name, itemModel(), tc.ops, tc.legal)
	}
}

func TestPotModel(t *testing.T) {
	t.Parallel()
	add := func(b, s, g int32) potInput { return potInput{add: coins{b, s, g}} }
	draw := func(n int32) potInput { return potInput{draw: n} }
	look := potInput{}
	full := op(0, 1, history.OK, add(potSize, 0, 0), coins{potSize})
	for name, tc := range map[string]struct {
		ops   []history.Op
		legal bool
	}{
		"a life": {[]history.Op{
			op(0, 1, history.OK, add(3, 2, 0), coins{3, 2, 0}), op(2, 3, history.OK, potInput{remove: coins{9, 0, 1}}, coins{3, 0, 0}),
			op(4, 5, history.OK, look, coins{0, 2, 0}), op(6, 7, history.OK, draw(5), coins{0, 2, 0}),
		}, true},
		"coins from nowhere": {[]history.Op{op(0, 1, history.OK, add(1, 0, 0), coins{1}), op(2, 3, history.OK, look, coins{2})}, false},
		"one coin drawn twice": {[]history.Op{
			op(0, 1, history.OK, add(1, 0, 0), coins{1}),
			op(2, 9, history.OK, draw(1), coins{1}),
			op(2, 9, history.OK, draw(1), coins{1}),
		}, false},
		"drawn what is not": {[]history.Op{
			op(0, 1, history.OK, add(1, 0, 0), coins{1}), op(2, 3, history.OK, draw(1), coins{0, 1, 0}),
		}, false},
		"drawn too few":         {[]history.Op{op(0, 1, history.OK, add(5, 0, 0), coins{5}), op(2, 3, history.OK, draw(3), coins{2})}, false},
		"over the brim":         {[]history.Op{full, op(2, 3, history.OK, add(1, 0, 0), coins{1})}, false},
		"refused at the brim":   {[]history.Op{full, op(2, 3, history.Refused, add(1, 0, 0), nil)}, true},
		"refused without cause": {[]history.Op{op(0, 1, history.Refused, add(1, 0, 0), nil)}, false},
		"unknown draw, any": {[]history.Op{
			op(0, 1, history.OK, add(1, 1, 0), coins{1, 1, 0}),
			op(2, 3, history.Unknown, draw(1), nil),
			op(4, 5, history.OK, look, coins{0, 1, 0}),
		}, true},
		"unknown draw, two gone": {[]history.Op{
			op(0, 1, history.OK, add(1, 1, 0), coins{1, 1, 0}),
			op(2, 3, history.Unknown, draw(1), nil),
			op(4, 5, history.OK, look, coins{}),
		}, false},
	} {
		wantLegal(t, name, potModel(), tc.ops, tc.legal)
	}
}

func wantLegal(t *testing.T, name string, model porcupine.Model, ops []history.Op, legal bool) {
	t.Helper()
	ok, detail, picture := history.Check(model, ops, t.TempDir())
	if ok != legal || !strings.HasPrefix(detail, "1 keys") || (picture != "") == legal {
		t.Errorf("%s: %s, want %t", name, detail, legal)
	}
}
