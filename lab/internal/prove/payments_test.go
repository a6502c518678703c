package prove

import (
	"testing"
	"time"
)

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
