package prove

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/services"
)

type ops = []history.Op

// Short names of the outcomes.
const (
	done    = services.OK
	refused = services.Refused
	lost    = services.Unknown
	undone  = services.NotApplied
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
		ops   ops
		legal bool
	}{
		"one after the other": {ops{
			op(0, 1, done, int64(5), int64(5)), op(2, 3, done, int64(-2), int64(3)), op(4, 5, done, read, int64(3)),
		}, true},
		"at once, in either order": {ops{op(0, 9, done, int64(5), int64(7)), op(1, 8, done, int64(2), int64(2))}, true},
		"a lost increase":          {ops{op(0, 1, done, int64(5), int64(5)), op(2, 3, done, read, int64(0))}, false},
		"an increase made twice":   {ops{op(0, 1, done, int64(5), int64(10))}, false},
		"a stale read": {ops{
			op(0, 1, done, int64(5), int64(5)), op(2, 3, done, int64(1), int64(6)), op(4, 5, done, read, int64(5)),
		}, false},
		"one answer given twice": {ops{op(0, 9, done, int64(1), int64(1)), op(0, 9, done, int64(1), int64(1))}, false},
		"unknown and done":       {ops{op(0, 1, lost, int64(5), nil), op(2, 3, done, read, int64(5))}, true},
		"unknown and done late": {ops{
			op(0, 1, lost, int64(5), nil), op(2, 3, done, read, int64(0)), op(4, 5, done, read, int64(5)),
		}, true},
		"unknown and not done":   {ops{op(0, 1, lost, int64(5), nil), op(2, 3, done, read, int64(0))}, true},
		"unknown and done twice": {ops{op(0, 1, lost, int64(5), nil), op(2, 3, done, read, int64(10))}, false},
		"not applied, but done":  {ops{op(0, 1, undone, int64(5), nil), op(2, 3, done, read, int64(5))}, false},
	} {
		wantLegal(t, name, countModel(), tc.ops, tc.legal)
	}
}

func TestPaymentModel(t *testing.T) {
	t.Parallel()
	fresh := func(id string) paymentOutput { return paymentOutput{id, false} }
	again := func(id string) paymentOutput { return paymentOutput{id, true} }
	paid := op(0, 1, done, int64(1), fresh("a"))
	over := int(keyLife/time.Millisecond) + 100
	for name, tc := range map[string]struct {
		ops   ops
		legal bool
	}{
		"paid and repeated":        {ops{paid, op(2, 3, done, int64(1), again("a"))}, true},
		"conflict":                 {ops{paid, op(2, 3, refused, int64(2), nil)}, true},
		"paid twice":               {ops{paid, op(2, 3, done, int64(1), fresh("b"))}, false},
		"another answer":           {ops{paid, op(2, 3, done, int64(1), again("b"))}, false},
		"another amount answered":  {ops{paid, op(2, 3, done, int64(2), again("a"))}, false},
		"conflict with itself":     {ops{paid, op(2, 3, refused, int64(1), nil)}, false},
		"replay of nothing":        {ops{op(0, 1, done, int64(1), again("a"))}, false},
		"unknown, then its answer": {ops{op(0, 1, lost, int64(1), nil), op(2, 3, done, int64(1), again("a"))}, true},
		"unknown, then paid":       {ops{op(0, 1, lost, int64(1), nil), op(2, 3, done, int64(1), fresh("a"))}, true},
		"unknown, two answers": {ops{
			op(0, 1, lost, int64(1), nil), op(2, 3, done, int64(1), again("a")), op(4, 5, done, int64(1), again("b")),
		}, false},
		"not applied, but paid": {ops{op(0, 1, undone, int64(1), nil), op(2, 3, done, int64(1), again("a"))}, false},

		"its life over, paid anew":         {ops{paid, op(over, over+1, done, int64(1), fresh("b"))}, true},
		"its life over, another amount":    {ops{paid, op(over, over+1, done, int64(2), fresh("b"))}, true},
		"its life over, the old answer":    {ops{paid, op(over, over+1, done, int64(1), again("a"))}, false},
		"its life not over, paid anew":     {ops{paid, op(over/2, over/2+1, done, int64(1), fresh("b"))}, false},
		"its life over meanwhile, anew":    {ops{paid, op(over/2, over+1, done, int64(1), fresh("b"))}, true},
		"its life over meanwhile, the old": {ops{paid, op(over/2, over+1, done, int64(1), again("a"))}, true},
		"the new answer is the key's": {ops{
			paid, op(over, over+1, done, int64(1), fresh("b")),
			op(over+2, over+3, done, int64(1), again("a")),
		}, false},
		"unknown, seen, its life over, the old answer": {ops{
			op(0, 1, lost, int64(1), nil), op(2, 3, done, int64(1), again("a")), op(over, over+1, done, int64(1), again("a")),
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
		ops   ops
		legal bool
	}{
		"a life": {ops{
			op(0, 1, done, add, says(1)), op(2, 3, done, increment, says(1)), op(4, 5, done, page, says(1)),
			op(6, 7, done, remove, says(1)),
			op(8, 9, done, increment, says(0)), op(10, 11, done, page, says(absent)),
		}, true},
		"added twice":   {ops{op(0, 1, done, add, says(1)), op(2, 3, done, add, says(1))}, false},
		"both added it": {ops{op(0, 9, done, add, says(1)), op(0, 9, done, add, says(1))}, false},
		"lost":          {ops{op(0, 1, done, add, says(1)), op(2, 3, done, page, says(absent))}, false},
		"lost of a batch": {ops{
			op(0, 1, done, add, itemOutput{}), op(2, 3, done, page, says(absent)),
		}, false},
		"unknown and done":  {ops{op(0, 1, lost, add, nil), op(2, 3, done, page, says(0))}, true},
		"not applied, done": {ops{op(0, 1, undone, add, nil), op(2, 3, done, page, says(0))}, false},
		"incremented twice": {ops{
			op(0, 1, done, add, says(1)), op(2, 3, lost, increment, nil), op(4, 5, done, page, says(2)),
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
	after := func(more ...history.Op) ops {
		return append(ops{op(0, 1, done, itemInput{verb: itemAdd}, says(1))}, more...)
	}
	released, extended, remove, later := by(itemRelease, "A"), by(itemExtend, "A"), by(itemDelete, "A"), took("B", 9999)
	increment := by(itemIncrement, "A")
	held := op(10, 20, done, claim, took("A", 10+lease))
	for name, tc := range map[string]struct {
		ops   ops
		legal bool
	}{
		"claimed and worked": {after(
			held, op(30, 40, done, remove, says(1)), op(50, 60, done, page, says(absent)),
		), true},
		"claimed twice":           {after(held, op(30, 40, done, claim, took("B", 30+lease))), false},
		"claimed again when over": {after(held, op(lease+50, lease+60, done, claim, took("B", 9999))), true},
		"claimed again, released": {after(
			held, op(30, 40, done, released, itemOutput{}), op(50, 60, done, claim, took("B", 9999)),
		), true},
		"claimed again, extended": {after(
			held, op(30, 900, done, extended, itemOutput{}), op(lease+10, lease+15, done, claim, later),
		), true},
		"passed over":         {after(op(2, 3, done, claim, none)), true},
		"claimed what is not": {ops{op(2, 3, done, claim, took("A", 999))}, false},
		"extended, then claimed": {after(
			held, op(900, 910, done, extended, itemOutput{}), op(lease+100, lease+101, done, claim, later),
		), false},
		"a late change":             {after(held, op(lease+50, lease+60, done, increment, says(1))), false},
		"a late change, refused":    {after(held, op(lease+50, lease+60, done, increment, says(0))), true},
		"a change by another claim": {after(held, op(30, 40, done, by(itemIncrement, "B"), says(1))), false},
		"a change after a release": {after(
			held, op(30, 40, done, released, itemOutput{}), op(50, 60, done, remove, says(1)),
		), false},
		"a live change refused":  {after(held, op(30, 40, done, increment, says(0))), false},
		"over meanwhile, either": {after(held, op(30, lease+60, done, increment, says(0))), true},
		"a lost claim holds it": {after(
			op(2, 3, lost, claim, nil), op(30, 40, done, claim, none), op(50, 60, done, page, says(0)),
		), true},
		"a lost extension": {after(
			held, op(30, 40, lost, extended, nil), op(lease+50, lease+60, done, remove, says(1)),
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
	full := op(0, 1, done, add(potSize, 0, 0), coins{potSize})
	for name, tc := range map[string]struct {
		ops   ops
		legal bool
	}{
		"a life": {ops{
			op(0, 1, done, add(3, 2, 0), coins{3, 2, 0}), op(2, 3, done, potInput{remove: coins{9, 0, 1}}, coins{3, 0, 0}),
			op(4, 5, done, look, coins{0, 2, 0}), op(6, 7, done, draw(5), coins{0, 2, 0}),
		}, true},
		"coins from nowhere": {ops{op(0, 1, done, add(1, 0, 0), coins{1}), op(2, 3, done, look, coins{2})}, false},
		"one coin drawn twice": {ops{
			op(0, 1, done, add(1, 0, 0), coins{1}),
			op(2, 9, done, draw(1), coins{1}),
			op(2, 9, done, draw(1), coins{1}),
		}, false},
		"drawn what is not": {ops{
			op(0, 1, done, add(1, 0, 0), coins{1}), op(2, 3, done, draw(1), coins{0, 1, 0}),
		}, false},
		"drawn too few":         {ops{op(0, 1, done, add(5, 0, 0), coins{5}), op(2, 3, done, draw(3), coins{2})}, false},
		"over the brim":         {ops{full, op(2, 3, done, add(1, 0, 0), coins{1})}, false},
		"refused at the brim":   {ops{full, op(2, 3, refused, add(1, 0, 0), nil)}, true},
		"refused without cause": {ops{op(0, 1, refused, add(1, 0, 0), nil)}, false},
		"unknown draw, any": {ops{
			op(0, 1, done, add(1, 1, 0), coins{1, 1, 0}),
			op(2, 3, lost, draw(1), nil),
			op(4, 5, done, look, coins{0, 1, 0}),
		}, true},
		"unknown draw, two gone": {ops{
			op(0, 1, done, add(1, 1, 0), coins{1, 1, 0}),
			op(2, 3, lost, draw(1), nil),
			op(4, 5, done, look, coins{}),
		}, false},
	} {
		wantLegal(t, name, potModel(), tc.ops, tc.legal)
	}
}

func wantLegal(t *testing.T, name string, model porcupine.Model, ops ops, legal bool) {
	t.Helper()
	ok, detail, picture := history.Check(model, ops, t.TempDir())
	if ok != legal || !strings.HasPrefix(detail, "1 keys") || (picture != "") == legal {
		t.Errorf("%s: %s, want %t", name, detail, legal)
	}
}
