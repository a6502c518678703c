package prove

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// iidyItem is an item as the model has it: its attempts, absent when it is not
// there, and the claim that it is leased to. The lease ends between low and high,
// which are one where the answer to the claim said so.
type iidyItem struct {
	attempts  int64
	claim     string
	low, high time.Duration
}

// iidyModel is an item that is not there at first. When a lease ends during an
// operation, the operation may find it alive or not, so there can be two states
// after it.
func iidyModel() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{iidyItem{attempts: absent}} },
		Step: func(state, input, output any) []any {
			item, _ := state.(iidyItem)
			in, _ := input.(iidyInput)
			op, _ := output.(Op)
			return in.step(item, op)
		},
		DescribeOperation: func(input, output any) string {
			in, _ := input.(iidyInput)
			op, _ := output.(Op)
			return fmt.Sprintf("%s (of %04b) %s -> %+v %s", in.Verb, in.Items, in.Claim, op.Output, op.Code)
		},
	}
	return nondeterministic.ToModel()
}

// step returns the states that the item may be in after the operation; none when the
// answer cannot be.
func (in iidyInput) step(item iidyItem, op Op) (after []any) {
	told, _ := op.Output.(iidyOutput)
	if op.Outcome == Unknown {
		told, op.Return = iidyOutput{}, never // it may take effect at any time
	}
	there := item.attempts != absent
	// may adds a state after an answer of n.
	may := func(possible bool, n int64, state iidyItem) {
		if possible && (!told.Told || told.N == n) {
			after = append(after, state)
		}
	}
	switch in.Verb {
	case iidyPage:
		may(true, item.attempts, item)
	case iidyAdd:
		may(!there, 1, iidyItem{})
		may(there, 0, item)
	case iidyIncrement, iidyDelete, iidyExtend, iidyRelease:
		touched, canTouch, canSkip := in.touch(item, op), there, !there
		if in.Claim != "" {
			canTouch, canSkip = there && in.mayHold(item, op), !there || !in.surelyHolds(item, op)
		}
		may(canTouch, 1, touched)
		may(canSkip, 0, item)
	case iidyClaim:
		free := there && (item.claim == "" || op.Return >= item.low-clockSlack)
		switch {
		case told.Claim != "":
			may(free, item.attempts, iidyItem{item.attempts, told.Claim, told.Until, told.Until})
		case told.Told: // what is locked at the moment is passed over, so not to be taken needs no cause
			after = append(after, item)
		default:
			may(true, 0, item)
			may(free, 0, iidyItem{item.attempts, fmt.Sprint("lost at ", op.Call), op.Call + workLease, never})
		}
	}
	return after
}

// touch is what the operation does to an item that it is allowed to touch.
func (in iidyInput) touch(item iidyItem, op Op) iidyItem {
	switch in.Verb {
	case iidyIncrement:
		item.attempts++
	case iidyDelete:
		item = iidyItem{attempts: absent}
	case iidyExtend:
		item.low, item.high = op.Call+workLease, never
		if op.Return != never {
			item.high = op.Return + workLease
		}
	case iidyRelease:
		item.claim, item.low, item.high = "", 0, 0
	case iidyAdd, iidyPage, iidyClaim:
	}
	return item
}

// mayHold tells whether the operation's claim may have held the item at some time of
// the operation, surelyHolds whether it held it all that time.
func (in iidyInput) mayHold(item iidyItem, op Op) bool {
	return item.claim == in.Claim && (item.high == never || op.Call <= item.high+clockSlack)
}

func (in iidyInput) surelyHolds(item iidyItem, op Op) bool {
	return item.claim == in.Claim && op.Return < item.low-clockSlack
}
