package history

import (
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// op is a shorthand: times are in milliseconds.
func op(call, ret int, outcome services.Outcome, input, output any) Op {
	return Op{
		Key: "k", Outcome: outcome, Input: input, Output: output,
		Call: time.Duration(call) * time.Millisecond, Return: time.Duration(ret) * time.Millisecond,
	}
}

func TestCountModel(t *testing.T) {
	t.Parallel()
	add := func(n int64) CountInput { return CountInput{n} }
	read := add(0)
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"one after the other": {[]Op{
			op(0, 1, OK, add(5), int64(5)), op(2, 3, OK, add(-2), int64(3)), op(4, 5, OK, read, int64(3)),
		}, true},
		"at once, in either order": {[]Op{op(0, 9, OK, add(5), int64(7)), op(1, 8, OK, add(2), int64(2))}, true},
		"a lost increase":          {[]Op{op(0, 1, OK, add(5), int64(5)), op(2, 3, OK, read, int64(0))}, false},
		"an increase made twice":   {[]Op{op(0, 1, OK, add(5), int64(10))}, false},
		"twice, seen by a read":    {[]Op{op(0, 1, OK, add(5), int64(5)), op(2, 3, OK, read, int64(10))}, false},
		"a stale read": {[]Op{
			op(0, 1, OK, add(5), int64(5)), op(2, 3, OK, add(1), int64(6)), op(4, 5, OK, read, int64(5)),
		}, false},
		"one answer given twice": {[]Op{op(0, 9, OK, add(1), int64(1)), op(0, 9, OK, add(1), int64(1))}, false},
		"unknown and done":       {[]Op{op(0, 1, Unknown, add(5), nil), op(2, 3, OK, read, int64(5))}, true},
		"unknown and done late": {[]Op{
			op(0, 1, Unknown, add(5), nil), op(2, 3, OK, read, int64(0)), op(4, 5, OK, read, int64(5)),
		}, true},
		"unknown and not done":   {[]Op{op(0, 1, Unknown, add(5), nil), op(2, 3, OK, read, int64(0))}, true},
		"unknown and done twice": {[]Op{op(0, 1, Unknown, add(5), nil), op(2, 3, OK, read, int64(10))}, false},
		"not applied, but done":  {[]Op{op(0, 1, NotApplied, add(5), nil), op(2, 3, OK, read, int64(5))}, false},
	} {
		wantLegal(t, name, Counts(), tc.ops, tc.legal)
	}
}

func TestPaymentModel(t *testing.T) {
	t.Parallel()
	pay := func(n int64) PaymentInput { return PaymentInput{n} }
	fresh := func(id string) PaymentOutput { return PaymentOutput{id, false} }
	again := func(id string) PaymentOutput { return PaymentOutput{id, true} }
	paid := op(0, 1, OK, pay(1), fresh("a"))
	over := int(testLife/time.Millisecond) + 100
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"paid and repeated":        {[]Op{paid, op(2, 3, OK, pay(1), again("a"))}, true},
		"conflict":                 {[]Op{paid, op(2, 3, Refused, pay(2), nil)}, true},
		"paid twice":               {[]Op{paid, op(2, 3, OK, pay(1), fresh("b"))}, false},
		"another answer":           {[]Op{paid, op(2, 3, OK, pay(1), again("b"))}, false},
		"another amount answered":  {[]Op{paid, op(2, 3, OK, pay(2), again("a"))}, false},
		"conflict with itself":     {[]Op{paid, op(2, 3, Refused, pay(1), nil)}, false},
		"replay of nothing":        {[]Op{op(0, 1, OK, pay(1), again("a"))}, false},
		"unknown, then its answer": {[]Op{op(0, 1, Unknown, pay(1), nil), op(2, 3, OK, pay(1), again("a"))}, true},
		"unknown, then paid":       {[]Op{op(0, 1, Unknown, pay(1), nil), op(2, 3, OK, pay(1), fresh("a"))}, true},
		"unknown, two answers": {[]Op{
			op(0, 1, Unknown, pay(1), nil), op(2, 3, OK, pay(1), again("a")), op(4, 5, OK, pay(1), again("b")),
		}, false},
		"not applied, but paid": {[]Op{op(0, 1, NotApplied, pay(1), nil), op(2, 3, OK, pay(1), again("a"))}, false},

		"its life over, paid anew":         {[]Op{paid, op(over, over+1, OK, pay(1), fresh("b"))}, true},
		"its life over, another amount":    {[]Op{paid, op(over, over+1, OK, pay(2), fresh("b"))}, true},
		"its life over, the old answer":    {[]Op{paid, op(over, over+1, OK, pay(1), again("a"))}, false},
		"its life not over, paid anew":     {[]Op{paid, op(over/2, over/2+1, OK, pay(1), fresh("b"))}, false},
		"its life over meanwhile, anew":    {[]Op{paid, op(over/2, over+1, OK, pay(1), fresh("b"))}, true},
		"its life over meanwhile, the old": {[]Op{paid, op(over/2, over+1, OK, pay(1), again("a"))}, true},
		"the new answer is the key's": {[]Op{
			paid, op(over, over+1, OK, pay(1), fresh("b")),
			op(over+2, over+3, OK, pay(1), again("a")),
		}, false},
		"unknown, seen, its life over, the old answer": {[]Op{
			op(0, 1, Unknown, pay(1), nil), op(2, 3, OK, pay(1), again("a")), op(over, over+1, OK, pay(1), again("a")),
		}, false},
	} {
		wantLegal(t, name, Payments(testLife), tc.ops, tc.legal)
	}
}

func TestIidyModel(t *testing.T) {
	t.Parallel()
	in := func(verb ItemVerb, items uint8) ItemInput { return ItemInput{Verb: verb, Items: items} }
	add, increment, remove, page := in(ItemAdd, 1), in(ItemIncrement, 1), in(ItemDelete, 1), in(ItemPage, 0)
	says := func(n int64) ItemOutput { return ItemOutput{N: n, Known: true} }
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"a life": {[]Op{
			op(0, 1, OK, add, says(1)), op(2, 3, OK, increment, says(1)), op(4, 5, OK, page, says(1)),
			op(6, 7, OK, remove, says(1)),
			op(8, 9, OK, increment, says(0)), op(10, 11, OK, page, says(Absent)),
		}, true},
		"added twice":   {[]Op{op(0, 1, OK, add, says(1)), op(2, 3, OK, add, says(1))}, false},
		"both added it": {[]Op{op(0, 9, OK, add, says(1)), op(0, 9, OK, add, says(1))}, false},
		"lost":          {[]Op{op(0, 1, OK, add, says(1)), op(2, 3, OK, page, says(Absent))}, false},
		"lost of a batch": {[]Op{
			op(0, 1, OK, in(ItemAdd, 3), ItemOutput{}), op(2, 3, OK, page, says(Absent)),
		}, false},
		"unknown and done":  {[]Op{op(0, 1, Unknown, add, nil), op(2, 3, OK, page, says(0))}, true},
		"unknown, not done": {[]Op{op(0, 1, Unknown, add, nil), op(2, 3, OK, page, says(Absent))}, true},
		"not applied, done": {[]Op{op(0, 1, NotApplied, add, nil), op(2, 3, OK, page, says(0))}, false},
		"incremented twice": {[]Op{
			op(0, 1, OK, add, says(1)), op(2, 3, Unknown, increment, nil), op(4, 5, OK, page, says(2)),
		}, false},
	} {
		wantLegal(t, name, Items(testLife), tc.ops, tc.legal)
	}
}

// An item is held by one claim at a time, and what comes when the lease is over
// touches nothing.
func TestIidyClaims(t *testing.T) {
	t.Parallel()
	const lease = int(testLife / time.Millisecond)
	took := func(id string, until int) ItemOutput {
		return ItemOutput{N: 0, Known: true, Claim: id, Until: time.Duration(until) * time.Millisecond}
	}
	says := func(n int64) ItemOutput { return ItemOutput{N: n, Known: true} }
	by := func(verb ItemVerb, claim string) ItemInput { return ItemInput{Verb: verb, Items: 1, Claim: claim} }
	claim, page := ItemInput{Verb: ItemClaim, Count: 1}, ItemInput{Verb: ItemPage}
	none := ItemOutput{N: Absent, Known: true}
	after := func(ops ...Op) []Op {
		return append([]Op{op(0, 1, OK, ItemInput{Verb: ItemAdd, Items: 1}, says(1))}, ops...)
	}
	released, extended, remove, later := by(ItemRelease, "A"), by(ItemExtend, "A"), by(ItemDelete, "A"), took("B", 9999)
	increment := by(ItemIncrement, "A")
	held := op(10, 20, OK, claim, took("A", 10+lease))
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"claimed and worked": {after(
			held, op(30, 40, OK, remove, says(1)), op(50, 60, OK, page, says(Absent)),
		), true},
		"claimed twice":           {after(held, op(30, 40, OK, claim, took("B", 30+lease))), false},
		"claimed again when over": {after(held, op(lease+50, lease+60, OK, claim, took("B", 9999))), true},
		"claimed again, released": {after(
			held, op(30, 40, OK, released, ItemOutput{}), op(50, 60, OK, claim, took("B", 9999)),
		), true},
		"claimed again, extended": {after(
			held, op(30, 900, OK, extended, ItemOutput{}), op(lease+10, lease+15, OK, claim, later),
		), true},
		"passed over":         {after(op(2, 3, OK, claim, none)), true},
		"claimed what is not": {[]Op{op(2, 3, OK, claim, took("A", 999))}, false},
		"extended, then claimed": {after(
			held, op(900, 910, OK, extended, ItemOutput{}), op(lease+100, lease+101, OK, claim, later),
		), false},
		"a late change":             {after(held, op(lease+50, lease+60, OK, increment, says(1))), false},
		"a late change, refused":    {after(held, op(lease+50, lease+60, OK, increment, says(0))), true},
		"a change by another claim": {after(held, op(30, 40, OK, by(ItemIncrement, "B"), says(1))), false},
		"a change after a release": {after(
			held, op(30, 40, OK, released, ItemOutput{}), op(50, 60, OK, remove, says(1)),
		), false},
		"a live change refused":  {after(held, op(30, 40, OK, increment, says(0))), false},
		"over meanwhile, either": {after(held, op(30, lease+60, OK, increment, says(0))), true},
		"a lost claim holds it": {after(
			op(2, 3, Unknown, claim, nil), op(30, 40, OK, claim, none), op(50, 60, OK, page, says(0)),
		), true},
		"a lost extension": {after(
			held, op(30, 40, Unknown, extended, nil), op(lease+50, lease+60, OK, remove, says(1)),
		), true},
	} {
		wantLegal(t, name, Items(testLife), tc.ops, tc.legal)
	}
}

func TestPotModel(t *testing.T) {
	t.Parallel()
	add := func(b, s, g int32) PotInput { return PotInput{Add: Coins{b, s, g}} }
	draw := func(n int32) PotInput { return PotInput{Draw: n} }
	look := PotInput{}
	full := op(0, 1, OK, add(testSize, 0, 0), Coins{testSize})
	for name, tc := range map[string]struct {
		ops   []Op
		legal bool
	}{
		"a life": {[]Op{
			op(0, 1, OK, add(3, 2, 0), Coins{3, 2, 0}), op(2, 3, OK, PotInput{Remove: Coins{9, 0, 1}}, Coins{3, 0, 0}),
			op(4, 5, OK, look, Coins{0, 2, 0}), op(6, 7, OK, draw(5), Coins{0, 2, 0}),
		}, true},
		"coins from nowhere": {[]Op{op(0, 1, OK, add(1, 0, 0), Coins{1}), op(2, 3, OK, look, Coins{2})}, false},
		"one coin drawn twice": {[]Op{
			op(0, 1, OK, add(1, 0, 0), Coins{1}),
			op(2, 9, OK, draw(1), Coins{1}),
			op(2, 9, OK, draw(1), Coins{1}),
		}, false},
		"drawn what is not": {[]Op{
			op(0, 1, OK, add(1, 0, 0), Coins{1}), op(2, 3, OK, draw(1), Coins{0, 1, 0}),
		}, false},
		"drawn too few":         {[]Op{op(0, 1, OK, add(5, 0, 0), Coins{5}), op(2, 3, OK, draw(3), Coins{2})}, false},
		"over the brim":         {[]Op{full, op(2, 3, OK, add(1, 0, 0), Coins{1})}, false},
		"refused at the brim":   {[]Op{full, op(2, 3, Refused, add(1, 0, 0), nil)}, true},
		"refused without cause": {[]Op{op(0, 1, Refused, add(1, 0, 0), nil)}, false},
		"unknown draw, any": {[]Op{
			op(0, 1, OK, add(1, 1, 0), Coins{1, 1, 0}),
			op(2, 3, Unknown, draw(1), nil),
			op(4, 5, OK, look, Coins{0, 1, 0}),
		}, true},
		"unknown draw, two gone": {[]Op{
			op(0, 1, OK, add(1, 1, 0), Coins{1, 1, 0}),
			op(2, 3, Unknown, draw(1), nil),
			op(4, 5, OK, look, Coins{}),
		}, false},
	} {
		wantLegal(t, name, Pots(testSize), tc.ops, tc.legal)
	}
}

// testLife is the life of keys and leases.
const testLife = time.Second

// testSize is the size of a pot.
const testSize = 60

func wantLegal(t *testing.T, name string, model Model, ops []Op, legal bool) {
	t.Helper()
	ok, detail, picture := Check(model, ops, t.TempDir())
	if ok != legal || !strings.HasPrefix(detail, "1 keys") || (picture != "") == legal {
		t.Errorf("%s: %s, want %t", name, detail, legal)
	}
}

// Every key is checked on its own, and one that is wrong fails the check.
func TestCheckKeys(t *testing.T) {
	t.Parallel()
	var ops []Op
	for _, key := range []string{"a", "b", "c"} {
		one := op(0, 1, OK, CountInput{1}, int64(1))
		one.Key = key
		ops = append(ops, one)
	}
	if ok, detail, _ := Check(Counts(), ops, ""); !ok {
		t.Error(detail)
	}
	ops[1].Output = int64(2)
	ok, detail, _ := Check(Counts(), ops, "")
	if ok || !strings.Contains(detail, "3 keys: illegal 1, undecided 0; first: b: 1 op") {
		t.Error(detail)
	}
}
