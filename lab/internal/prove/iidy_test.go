package prove

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/history"
)

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
